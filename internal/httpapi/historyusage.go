package httpapi

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"poold/internal/history"
	"poold/internal/status"
)

// The status contains counts of the last handoutDays days, including today.
const handoutDays = 7

// usageOf identifies a line of the response to GET /history/usage.
type usageOf struct{ date, name, owner string } // date "" = all days; name of a target or key, "" = all of the owner

// usage sums figures by line.
type usage struct {
	usageQuery
	first, last string // days in the form 2006-01-02
	lines       map[usageOf]history.Figures
	owners      map[string]string // key: target with known hand-outs; value: its owner
	since       string            // first day with known hand-outs
}

// historyUsage is GET /history/usage: the figures of orders and tokens on some UTC days, by owner, by
// target or by key.
func (s *Server) historyUsage(c *Context) error {
	asked, err := readUsageQuery(c)
	switch {
	case err != nil:
		return err
	case s.History == nil:
		return errNoHistory()
	}
	set, now := c.Access.Set, time.Now()
	keep, source := set.History.Keep, "history (history.keep)"
	if asked.by == byKey {
		if c.Caller.Globs != nil {
			return NewProblem(CodeForbidden, "the figures by key cover all targets, and this key is limited to some; use by=target")
		}
		if !s.Audit {
			return errNoAudit()
		}
		keep, source = set.History.Audit, "audit (history.audit)"
	}
	first, last, err := asked.days(now, keep, source)
	if err != nil {
		return err
	}
	sum := usage{usageQuery: asked, first: first.Format(time.DateOnly), last: last.Format(time.DateOnly), lines: map[usageOf]history.Figures{}}
	if asked.by != byKey {
		sum.addHandouts(c, s.Status.Build(c.Ctx()), now)
	}
	if err := s.readDays(c, first, last, func(day *history.Sum) { sum.addDay(c, day) }); err != nil {
		return err
	}
	if asked.by == byKey {
		return respondUsage(c, &sum, keyUsage)
	}
	return respondUsage(c, &sum, targetUsage)
}

func respondUsage[Line any](c *Context, sum *usage, line func(of usageOf, f history.Figures) Line) error {
	answer := UsageBy[Line]{By: sum.by, First: sum.first, Last: sum.last, Lines: []Line{}, Currency: c.Access.Set.Currency}
	for _, of := range slices.SortedFunc(maps.Keys(sum.lines), func(a, b usageOf) int {
		return cmp.Or(strings.Compare(a.date, b.date), strings.Compare(a.name, b.name), strings.Compare(a.owner, b.owner))
	}) {
		answer.Lines = append(answer.Lines, line(of, sum.lines[of]))
	}
	return respondTable(c, answer, answer.Lines)
}

func keyUsage(of usageOf, f history.Figures) KeyUsageLine {
	return KeyUsageLine{
		Date: of.date, Key: of.name, HandedOut: f["taken"] + f["bought"], Returned: f["returned"], Missed: f["missed"], Accepted: f["accepted"],
		Rejected: f["rejected"], Bought: f["bought"], Spent: f.Spent(), Unpriced: f["unpriced"],
	}
}

func targetUsage(of usageOf, f history.Figures) UsageLine {
	line := UsageLine{Date: of.date, Target: of.name, Owner: of.owner, Figures: figuresOf(f)}
	if handedOut, expired := f["handed_out"], f["expired"]; f["partly"] == 0 {
		line.HandedOut, line.Expired = &handedOut, &expired
	}
	return line
}

// line returns the figures of a line, which has them if it is missing. Its figure partly is above 0 if
// the hand-outs of some days or targets are unknown.
func (s *usage) line(date, name, owner string) history.Figures {
	begins := date
	if s.per == "" {
		date, begins = "", s.first
	}
	if s.by == byOwner {
		name = ""
	}
	of := usageOf{date, name, owner}
	if s.lines[of] == nil {
		s.lines[of] = history.Figures{}
		if begins < s.since {
			s.lines[of]["partly"]++
		}
	}
	return s.lines[of]
}

// addHandouts adds the numbers of handed-out and expired tokens, under the current owners of the
// targets. Call addHandouts before addDay.
func (s *usage) addHandouts(c *Context, d *status.Document, now time.Time) {
	s.owners, s.since = map[string]string{}, now.UTC().AddDate(0, 0, 1-handoutDays).Format(time.DateOnly)
	if d.Redis.Reason != "" {
		return // the snapshot is stale
	}
	for i := range d.Targets {
		t := &d.Targets[i]
		s.owners[t.Name] = t.Owner
		for _, day := range t.Days {
			handedOut := day.Hits + day.Waited
			if s.first <= day.Date && day.Date <= s.last && handedOut+day.Expired > 0 && c.Sees(t.Name) {
				s.line(day.Date, t.Name, t.Owner).Add(history.Figures{"handed_out": handedOut, "expired": day.Expired})
			}
		}
	}
}

// addDay adds the figures of a day.
func (s *usage) addDay(c *Context, day *history.Sum) {
	switch {
	case s.by == byKey && day.Scope == history.ScopeKey:
		s.line(day.Day, day.Name, "").Add(day.Figures)
	case s.by != byKey && day.Scope == history.ScopeTarget && c.Sees(day.Name):
		line := s.line(day.Day, day.Name, day.Owner)
		line.Add(day.Figures)
		if owner, known := s.owners[day.Name]; !known || owner != day.Owner {
			line["partly"]++
		}
	}
}
