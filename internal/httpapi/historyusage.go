package httpapi

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
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

// moment returns a parameter that is a day or a time.
func moment(name string, into *time.Time) Param {
	return Param{
		Name: name, Want: "must be a UTC day such as 2026-01-02, or a time in RFC 3339 such as 2026-01-02T15:04:05Z, in which a + is written as %2B; from 1970 to 9999",
		Set: func(text string) (ok bool) { *into, ok = readMoment(text); return ok },
	}
}

// oneOf returns a parameter that is one of the given texts.
func oneOf(name, want string, into *string, allowed ...string) Param {
	return Param{Name: name, Want: want, Set: func(text string) bool { *into = text; return slices.Contains(allowed, text) }}
}

func checkRange(from, to time.Time) error {
	if !to.IsZero() && !from.Before(to) {
		return NewProblem(CodeBadRequest, "from must be before to; the range excludes `to` itself")
	}
	return nil
}

// These are the values of the parameter `by` of GET /history/usage. They select how the figures are
// summed.
const (
	byOwner  = "owner"
	byTarget = "target"
	byKey    = "key"
)

type usageQuery struct {
	by       string // byOwner | byTarget | byKey
	per      string // day = one line per day; "" = all days together
	from, to time.Time
}

func readUsageQuery(c *Context) (q usageQuery, err error) {
	by := oneOf("by", "must be owner, target or key: ?by=owner", &q.by, byOwner, byTarget, byKey)
	per := oneOf("per", "must be day or absent: ?by=owner&per=day", &q.per, "day")
	switch err := c.ReadQuery(by, per, moment("from", &q.from), moment("to", &q.to)); {
	case err != nil:
		return q, err
	case q.by == "":
		return q, by.Refuse()
	}
	return q, checkRange(q.from, q.to)
}

// days returns the first and the last UTC day of the query, by default the last defaultUsage days.
// A query is refused if some records of its days have expired, because the figures of such a day
// would be too low. The argument source is the name of the store for the error text.
func (q usageQuery) days(now time.Time, keep time.Duration, source string) (first, last time.Time, err error) {
	const day = 24 * time.Hour
	oldest := now.Add(-keep).Add(day - 1).UTC().Truncate(day)
	if last = now.UTC().Truncate(day); !q.to.IsZero() {
		last = q.to.Add(-1).Truncate(day)
	}
	switch {
	case !q.from.IsZero():
		first = q.from.Truncate(day)
	case last.Before(oldest):
		first = last
	default:
		first = last.AddDate(0, 0, 1-defaultUsage)
		if first.Before(oldest) {
			first = oldest
		}
	}
	switch {
	case first.After(last):
		err = NewProblem(CodeBadRequest, "from must not be after today if to is not given")
	case first.Before(oldest) || last.Sub(first) >= longestUsage*day:
		err = NewProblem(CodeBadRequest, fmt.Sprintf("from and to must span at most %d UTC days, none before %s: the %s keeps %v hours",
			longestUsage, oldest.Format(time.DateOnly), source, keep.Hours()))
	}
	return first, last, err
}

// readMoment parses a day or a time. A time is rounded up to whole milliseconds, which is the
// precision of records.
func readMoment(text string) (time.Time, bool) {
	if day, ok := readDay(text); ok {
		return day, true
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil || !rfc3339.MatchString(text) {
		return time.Time{}, false
	}
	whole := at.UTC().Truncate(time.Millisecond)
	if whole.Before(at) {
		whole = whole.Add(time.Millisecond)
	}
	return whole, storable(whole)
}

// The pattern rfc3339 is stricter than time.Parse, which also accepts, for example, an hour of one
// digit.
var rfc3339 = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

func readDay(text string) (time.Time, bool) {
	day, err := time.Parse(time.DateOnly, text)
	return day, err == nil && storable(day)
}

// storable reports whether all stores can represent a time.
func storable(at time.Time) bool { return at.Year() >= 1970 && at.Year() <= 9999 }

// encodeCursor encodes a position as a text that needs no escapes in a URL.
func encodeCursor(p history.Position) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(p.At.UnixMilli(), 10) + "." + p.ID))
}

// decodeCursor decodes the text that encodeCursor returns. For a text that is not a cursor, the
// result is false.
func decodeCursor(text string) (history.Position, bool) {
	plain, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return history.Position{}, false
	}
	at, id, _ := strings.Cut(string(plain), ".")
	ms, err := strconv.ParseInt(at, 10, 64)
	p := history.Position{At: time.UnixMilli(ms).UTC(), ID: id}
	if err != nil || !history.IsOrder(id) && !handoutID.MatchString(id) || !storable(p.At) || encodeCursor(p) != text {
		return history.Position{}, false
	}
	return p, true
}

// handoutID matches the id of a hand-out, and keyName the name of a key, also history.Keyless.
var (
	handoutID = regexp.MustCompile(`^\d{1,15}-\d{1,15}$`)
	keyName   = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9._@-]{0,62}|` + history.Keyless + `)$`)
)
