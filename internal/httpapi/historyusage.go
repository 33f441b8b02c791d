package httpapi

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"poold/internal/history"
)

// usageOf identifies a line of the response to GET /history/usage or GET /history/day.
type usageOf struct {
	date  string // "" = all days
	name  string // of a target or key; "" = all of the owner
	kind  string // type of the captchas; "" = all
	owner string
	from  string // provider; "" = all
}

// historyUsage is GET /history/usage: the figures of some UTC days, of orders by owner, target or provider, or of
// tokens by key.
func (s *Server) historyUsage(c *Context) error {
	var from, to time.Time
	by, per := byOwner, "" // per = day: one line per day
	err := c.ReadQuery(oneOf("by", "must be owner, target, provider or key: ?by=owner", &by, byOwner, byTarget, byProvider,
		byKey),
		oneOf("per", "must be day or absent: ?by=owner&per=day", &per, "day"), moment("from", &from), moment("to", &to))
	if err == nil {
		err = checkRange(from, to)
	}
	switch {
	case err != nil:
		return err
	case s.History == nil:
		return errNoHistory
	}
	set := c.Access.Set.History
	scope, keep, source := history.ScopeTarget, set.Keep, "history (history.keep)"
	if (by == byKey || by == byProvider) && c.Caller.Targets != nil {
		return NewProblem(CodeForbidden,
			"the figures by "+by+" cover all targets, and this key is limited to some; use by=target")
	}
	switch {
	case by == byProvider:
		scope = history.ScopeProvider
	case by == byKey && !s.Audit:
		return errNoAudit
	case by == byKey:
		scope, keep, source = history.ScopeKey, set.Audit, "audit (history.audit)"
	}
	first, last, err := usageDays(from, to, time.Now(), keep, source)
	if err != nil {
		return err
	}
	lineOf := func(sum *history.Sum) (usageOf, bool) {
		of := usageOf{date: sum.Day, name: sum.Name, owner: sum.Owner}
		if per == "" {
			of.date = ""
		}
		switch by {
		case byOwner:
			of.name = ""
		case byProvider:
			of.name, of.from = "", of.name
		}
		return of, sum.Scope == scope && c.Sees(sum.Name)
	}
	if by == byKey {
		return respondUsage(s, c, by, first, last, keyUsage, lineOf)
	}
	return respondUsage(s, c, by, first, last, targetUsage, lineOf)
}

// respondUsage adds up the figures of some days by line, and writes the lines.
func respondUsage[Line any](
	s *Server, c *Context, by string, first, last time.Time, line func(usageOf, history.Figures) Line,
	lineOf func(*history.Sum) (usageOf, bool),
) error {
	sums := map[usageOf]history.Figures{}
	err := readHistory(c, func(ctx context.Context) error {
		for day := first; !day.After(last); day = day.AddDate(0, 0, 1) {
			found, err := s.History.Days(ctx, day)
			if err != nil {
				return err
			}
			for i := range found {
				if of, is := lineOf(&found[i]); is {
					if sums[of] == nil {
						sums[of] = history.Figures{}
					}
					sums[of].Add(found[i].Figures)
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	answer := UsageBy[Line]{
		By: by, First: first.Format(time.DateOnly), Last: last.Format(time.DateOnly), Lines: []Line{},
	}
	for _, of := range slices.SortedFunc(maps.Keys(sums), func(a, b usageOf) int {
		return cmp.Or(strings.Compare(a.date, b.date), strings.Compare(a.name, b.name), strings.Compare(a.kind, b.kind),
			strings.Compare(a.owner, b.owner), strings.Compare(a.from, b.from))
	}) {
		answer.Lines = append(answer.Lines, line(of, sums[of]))
	}
	return respondTable(c, answer, answer.Lines)
}

func keyUsage(of usageOf, f history.Figures) KeyUsageLine {
	return KeyUsageLine{
		Date: of.date, Key: of.name, HandedOut: f["taken"] + f["bought"], Returned: f["returned"], Missed: f["missed"],
		Accepted: f["accepted"], Rejected: f["rejected"], Bought: f["bought"], Spent: f.Spent(), Unpriced: f["unpriced"],
	}
}

func targetUsage(of usageOf, f history.Figures) UsageLine {
	return UsageLine{
		Date: of.date, Type: of.kind, Target: of.name, Owner: of.owner, Provider: of.from,
		Orders: f.Orders(), Solved: f["solved"], Discarded: f["discarded"], Failed: f["failed"], Refused: f["refused"],
		Lost: f["lost"], TotalElapsedMS: f["elapsed_ms"], Spent: f.Spent(), Unpriced: f["unpriced"],
	}
}

const (
	// defaultPage is the maximum number of records in a response if the query has no limit.
	defaultPage = 50
	// defaultUsage is the number of days that /history/usage covers without the parameter `from`.
	defaultUsage = 7
	// longestUsage is the maximum number of days of one query, about a quarter of a year. There is a
	// limit because the store is queried once for each day.
	longestUsage = 92
)

// readPageQuery reads the parameters from, to, limit and cursor, and those in the argument more.
func readPageQuery(c *Context, q *history.Query, more ...Param) error {
	q.Limit = defaultPage
	cursor := Param{
		Name: "cursor", Want: "must be the `next` of an earlier answer, unchanged",
		Set: func(text string) (ok bool) { q.Before, ok = decodeCursor(text); return ok },
	}
	params := []Param{moment("from", &q.From), moment("to", &q.To), whole("limit", history.MostLimit, &q.Limit), cursor}
	err := c.ReadQuery(append(params, more...)...)
	if err == nil {
		err = checkRange(q.From, q.To)
	}
	return err
}

func checkRange(from, to time.Time) error {
	if !to.IsZero() && !from.Before(to) {
		return NewProblem(CodeBadRequest, "from must be before to; the range excludes `to` itself")
	}
	return nil
}

// These are the values of the parameter `by` of GET /history/usage. The parameter selects how the figures are summed.
const (
	byOwner    = "owner"
	byTarget   = "target"
	byProvider = "provider"
	byKey      = "key"
)

// usageDays returns the first and the last UTC day of a query, by default the last defaultUsage days.
// A query is refused if some records of its days have expired, because the figures of such a day
// would be too low. The argument source is the name of the store for the error text.
func usageDays(from, to, now time.Time, keep time.Duration, source string) (first, last time.Time, err error) {
	const day = 24 * time.Hour
	oldest := now.Add(-keep).Add(day - 1).UTC().Truncate(day)
	if last = now.UTC().Truncate(day); !to.IsZero() {
		last = to.Add(-1).Truncate(day)
	}
	if first = from.Truncate(day); from.IsZero() {
		first = last.AddDate(0, 0, 1-defaultUsage)
		if first.Before(oldest) {
			first = oldest
		}
	}
	if first.After(last) || first.Before(oldest) || last.Sub(first) >= longestUsage*day {
		err = NewProblem(CodeBadRequest,
			fmt.Sprintf("from and to must span 1 to %d UTC days, none before %s, and from must not be after today: "+
				"the %s keeps %v hours", longestUsage, oldest.Format(time.DateOnly), source, keep.Hours()))
	}
	return first, last, err
}

// encodeCursor encodes a position as a text that needs no escapes in a URL.
func encodeCursor(p history.Position) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(p.At.UnixMilli(), 10) + "." + p.ID))
}

// decodeCursor decodes the text that encodeCursor returns. For a text that is not a cursor, the
// result is false.
func decodeCursor(text string) (history.Position, bool) {
	plain, _ := base64.RawURLEncoding.DecodeString(text) // a text that it cannot decode differs from the encoding below
	at, id, _ := strings.Cut(string(plain), ".")
	ms, err := strconv.ParseInt(at, 10, 64)
	p := history.Position{At: time.UnixMilli(ms).UTC(), ID: id}
	return p, err == nil && (history.IsOrder(id) || handoutID.MatchString(id)) && storable(p.At) && encodeCursor(p) == text
}

// handoutID matches the id of a hand-out.
var handoutID = regexp.MustCompile(`^\d{1,15}-\d{1,15}$`)
