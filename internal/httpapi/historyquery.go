package httpapi

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"poold/internal/history"
)

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
