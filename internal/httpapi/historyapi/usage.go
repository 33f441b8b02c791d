package historyapi

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"poold/internal/history"
	"poold/internal/httpapi/kernel"
	"poold/internal/status"
)

// The status contains counts of the last handoutDays days, including today.
const handoutDays = 7

// Usage is GET /history/usage: the figures of orders and tokens on some UTC days, by owner, by
// target or by key.
func (h *Routes) Usage(w http.ResponseWriter, r *http.Request, c *kernel.Call) error {
	asked, err := readUsageQuery(r.URL.RawQuery)
	if err != nil {
		return err
	}
	if asked.by == byKey {
		return h.usageByKey(w, r, c, asked)
	}
	if h.Store == nil {
		return errNoHistory()
	}
	now := time.Now()
	first, last, err := asked.days(now, c.Access.Set.History.Keep, "history (history.keep)")
	if err != nil {
		return err
	}
	sum := usageSum{usageQuery: asked, first: first.Format(time.DateOnly), last: last.Format(time.DateOnly), sees: c.Sees, lines: map[usageOf]*usageFigures{}}
	sum.addHandouts(h.Status.Snapshot(r.Context()).Document, now)
	if err := readDays(r, first, last, h.Store.Day, sum.addOrders); err != nil {
		return err
	}
	answer := sum.answer()
	answer.Currency = c.Access.Set.Currency
	return respondTable(w, r, answer, answer.Lines)
}

// usageOf identifies a line of the response.
type usageOf struct {
	date string // "" = all days
	history.Owned
}

// usageFigures contains the figures of a line.
type usageFigures struct {
	history.Figures
	handedOut, expired int64 // sums of the known counts
	partly             bool  // the counts of some days or targets are unknown
}

type usageSum struct {
	usageQuery
	first, last string // in the form 2006-01-02
	sees        func(target string) bool
	lines       map[usageOf]*usageFigures
	owners      map[string]string // key: target with known hand-outs; value: its owner
	since       string            // first day with known hand-outs
}

// line returns the line for a day, a target and its owner. A missing line is created.
func (s *usageSum) line(date string, of history.Owned) *usageFigures {
	begins := date
	if !s.perDay {
		date, begins = "", s.first
	}
	if s.by == byOwner {
		of.Target = ""
	}
	key := usageOf{date, of}
	if s.lines[key] == nil {
		s.lines[key] = &usageFigures{partly: begins < s.since}
	}
	return s.lines[key]
}

// addHandouts adds the numbers of handed-out and expired tokens, under the current owners of the
// targets. Call addHandouts before addOrders.
func (s *usageSum) addHandouts(d *status.Document, now time.Time) {
	s.owners, s.since = map[string]string{}, now.UTC().AddDate(0, 0, 1-handoutDays).Format(time.DateOnly)
	if d.Redis.Reason != "" {
		return // the snapshot is stale
	}
	for i := range d.Targets {
		t := &d.Targets[i]
		s.owners[t.Name] = t.Owner
		for _, day := range t.Days {
			if day.Date < s.first || day.Date > s.last || day.Hits+day.Waited+day.Expired == 0 || !s.sees(t.Name) {
				continue
			}
			l := s.line(day.Date, history.Owned{Target: t.Name, Owner: t.Owner})
			l.handedOut += day.Hits + day.Waited
			l.expired += day.Expired
		}
	}
}

// addOrders adds the figures of the orders that ended on a day.
func (s *usageSum) addOrders(date string, day history.Day) {
	for owned, f := range day.Targets {
		if !s.sees(owned.Target) {
			continue
		}
		l := s.line(date, owned)
		l.Figures = l.Plus(f)
		if owner, known := s.owners[owned.Target]; !known || owner != owned.Owner {
			l.partly = true
		}
	}
}

func (s *usageSum) answer() Usage {
	lines := make([]UsageLine, 0, len(s.lines))
	for of, f := range s.lines {
		l := UsageLine{Date: of.date, Target: of.Target, Owner: of.Owner, DayFigures: dayFigures(f.Figures)}
		if !f.partly {
			l.HandedOut, l.Expired = &f.handedOut, &f.expired
		}
		lines = append(lines, l)
	}
	slices.SortFunc(lines, func(a, b UsageLine) int {
		return cmp.Or(strings.Compare(a.Date, b.Date), strings.Compare(a.Target, b.Target), strings.Compare(a.Owner, b.Owner))
	})
	return Usage{By: s.by, First: s.first, Last: s.last, Lines: lines}
}
