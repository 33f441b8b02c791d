package page

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"poold/internal/refill"
	"poold/internal/status"
)

// TargetRow is a target in the list.
type TargetRow struct{ *status.Target }

// Troubled reports whether a person should look at the target.
func (r TargetRow) Troubled() bool {
	return len(r.Marks) > 0 || r.State == refill.Refused || r.State == refill.Starved || r.State == refill.Budget
}

// Outcomes returns the number of requests in the last hour that ended: hits, waits and misses.
func (r TargetRow) Outcomes() int64 { return r.Hour.Hits + r.Hour.Waited + r.Hour.Missed }

// Widest returns the number of tokens that the full width of the target's bar represents.
func (r TargetRow) Widest() int { return max(r.Depth, r.Warm, r.Want, r.Coming(), 1) }

// Share returns the percentage of the target's bar that n tokens fill.
func (r TargetRow) Share(n int) int { return min(100, 100*n/r.Widest()) }

// Coming returns the number of tokens that are ready or on order.
func (r TargetRow) Coming() int { return r.Fresh + r.InFlight }

// Outliving returns the number of tokens that outlive the lead time of an order.
func (r TargetRow) Outliving() int { return max(0, r.Fresh-r.Ageing) }

// Missing returns how many tokens must still be ordered to reach the depth.
func (r TargetRow) Missing() int { return max(0, r.Depth-r.Coming()) }

// HandedOut returns the number of tokens that callers received.
func (r TargetRow) HandedOut() int64 { return r.Hits + r.Waited - r.Returned }

// Cost returns the price of n tokens at the average so far; 0 = unknown.
func (r TargetRow) Cost(n int) float64 {
	return float64(n) * float64(max(0, r.Spent)) / 1e9 / float64(max(1, r.Solved))
}

// Enough returns for how many seconds the ready and ordered tokens suffice if requests come as fast as in the last
// hour.
func (r TargetRow) Enough() float64 {
	return 3600 * float64(r.Coming()) / float64(max(1, r.Hour.Requests))
}

// Opened returns the target whose details the viewer has opened.
func (v *View) Opened() TargetRow { return TargetRow{&v.Detail.Target} }

// Sums are figures of several targets.
type Sums struct {
	States                      map[string]int
	Targets, Troubled, Paused   int
	Fresh, Ordered, Want        int
	Hits, Outcomes, FiveMinutes int64 // FiveMinutes counts requests
	Spent                       status.Amount
	Unpriced                    bool // some solves of today have no price
}

// Healthy returns the number of targets that are neither in trouble nor paused.
func (s Sums) Healthy() int { return s.Targets - s.Troubled - s.Paused }

// Rate returns the share of hits.
func (s Sums) Rate() float64 { return float64(s.Hits) / float64(max(1, s.Outcomes)) }

// Pace returns the number of requests per minute in the last five minutes.
func (s Sums) Pace() float64 { return float64(s.FiveMinutes) / 5 }

// Sums adds up the figures of some rows.
func (v *View) Sums(rows []TargetRow) Sums {
	s := Sums{Targets: len(rows), States: map[string]int{}}
	asOf, _ := time.Parse(time.RFC3339, v.AsOf)
	since := asOf.Add(-5 * time.Minute).Format(time.RFC3339)
	for _, r := range rows {
		if s.States[r.State]++; r.Troubled() {
			s.Troubled++
		} else if r.State == refill.Paused {
			s.Paused++
		}
		s.Fresh, s.Ordered, s.Want = s.Fresh+r.Fresh, s.Ordered+r.InFlight, s.Want+r.Want
		s.Hits, s.Outcomes = s.Hits+r.Hour.Hits, s.Outcomes+r.Outcomes()
		s.Spent, s.Unpriced = s.Spent+max(0, r.Today(v.AsOf)), s.Unpriced || r.Today(v.AsOf) < 0
		for _, minute := range r.Hour.Minutes {
			if minute.At > since {
				s.FiveMinutes += minute.Requests
			}
		}
	}
	return s
}

// Rows returns all targets, those with problems first.
func (v *View) Rows() []TargetRow {
	targets := status.ProblemsFirst(v.Targets)
	rows := make([]TargetRow, len(targets))
	for i := range targets {
		rows[i] = TargetRow{&targets[i]}
	}
	return rows
}

// List is one page of the targets that match the search.
type List struct {
	Rows                []TargetRow
	Found, From, To     int
	Previous, Following int // numbers of the neighbouring pages; 0 = there is none
}

// rowsOnPage is the maximum number of targets on a page of the list, so that renewals are cheap. Targets with problems
// are on the first page.
const rowsOnPage = 50

// List returns the page of targets that the query of the address selects.
func (v *View) List() (l List) {
	wanted := strings.ToLower(strings.TrimSpace(v.Query.Get("q")))
	rows := slices.DeleteFunc(v.Rows(), func(r TargetRow) bool {
		text := strings.Join([]string{r.Name, strings.ToLower(r.Owner), r.State, r.Type}, "\n")
		return !strings.Contains(text, wanted) || v.Query.Get("only") != "" && !r.Troubled()
	})
	slices.SortStableFunc(rows, v.compare)
	number, _ := strconv.Atoi(v.Query.Get("page")) // 0 if it is not a number
	last := max(1, (len(rows)+rowsOnPage-1)/rowsOnPage)
	number = max(1, min(number, last))
	l.Found, l.From, l.To, l.Previous = len(rows), (number-1)*rowsOnPage+1, min(number*rowsOnPage, len(rows)), number-1
	if number < last {
		l.Following = number + 1
	}
	l.Rows = rows[l.From-1 : l.To]
	return l
}

// compare compares two rows by the column that the viewer chose. Equal rows keep the order of Rows: problems first.
func (v *View) compare(a, b TargetRow) int {
	switch v.Query.Get("sort") {
	case "name":
		return strings.Compare(a.Name, b.Name)
	case "owner":
		return strings.Compare(a.Owner, b.Owner)
	case "hits":
		return cmp.Or(cmp.Compare(a.Hour.HitRate, b.Hour.HitRate), cmp.Compare(b.Outcomes(), a.Outcomes()))
	case "requests":
		return cmp.Compare(b.Hour.Requests, a.Hour.Requests)
	case "lead":
		return cmp.Compare(b.LeadTime.P50, a.LeadTime.P50)
	case "spent":
		return cmp.Compare(b.Today(v.AsOf), a.Today(v.AsOf))
	}
	return 0
}

// Chart shows the requests of some periods as two areas. A period is one unit wide.
type Chart struct {
	All, Hits     string // paths; Hits hides a part of All, which is "" if there is nothing else
	Width, Height int
	Most          int64 // the requests of the highest period
}

// Minutes draws how many requests for a target came in each of the last 60 minutes.
func (v *View) Minutes(r TargetRow) Chart { return draw(v.AsOf, 60, time.Minute, r.Hour.Minutes) }

// Hours draws how many requests for the opened target came in each of the last 24 hours.
func (v *View) Hours() Chart { return draw(v.AsOf, 24, time.Hour, v.Detail.LastDay.Hours) }

// draw returns the chart of the last n periods. Periods before them are left out.
func draw(asOf string, n int, step time.Duration, periods []status.TargetPeriod) Chart {
	now, _ := time.Parse(time.RFC3339, asOf)
	all, hits := make([]int64, n), make([]int64, n)
	c := Chart{Width: n, Height: 20, Most: 1}
	for _, p := range periods {
		at, err := time.Parse(time.RFC3339, p.At)
		if place := n - 1 - int(now.Truncate(step).Sub(at)/step); err == nil && place >= 0 && place < n {
			all[place], hits[place] = p.Hits+p.Waited+p.Missed, p.Hits
			c.Most = max(c.Most, all[place])
		}
	}
	if c.Hits = area(hits, c); !slices.Equal(all, hits) {
		c.All = area(all, c)
	}
	return c
}

// area returns the SVG path of the area under the columns of a chart.
func area(columns []int64, c Chart) string {
	path, level := fmt.Appendf(nil, "M0 %d", c.Height), c.Height
	for i, n := range columns {
		if top := c.Height - int((n*int64(c.Height)+c.Most-1)/c.Most); top != level {
			level = top
			path = fmt.Appendf(path, "H%dV%d", i, top)
		}
	}
	return string(fmt.Appendf(path, "H%dV%dz", c.Width, c.Height))
}
