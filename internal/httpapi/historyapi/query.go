package historyapi

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"poold/internal/history"
	"poold/internal/httpapi/kernel"
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

// These texts describe the valid values of the parameters.
const (
	wantMoment = "must be a UTC day such as 2026-01-02, or a time in RFC 3339 such as 2026-01-02T15:04:05Z, in which a + is written as %2B; from 1970 to 9999"
	wantCursor = "cursor must be the `next` of an earlier answer, unchanged"
	wantTarget = "target must be the name of a target, or /solve"
	wantBy     = "by must be owner, target or key: ?by=owner"
	wantPer    = "per must be day or absent: ?by=owner&per=day"
)

var wantLimit = fmt.Sprintf("limit must be a whole number from 1 to %d", history.MostLimit)

// pageQuery is a request for a page of records. Before the query, the function find limits
// Query.Targets to the targets that the caller may see.
type pageQuery struct {
	history.Query
	values url.Values // the unparsed parameters
}

// covers reports whether an order in flight matches the query. The order must belong to a target of
// the query. The order's position, which contains the time of placing, must be in the query's range
// and after the query's cursor.
func (q *pageQuery) covers(p history.Position, target string) bool {
	return (q.Targets == nil || slices.Contains(q.Targets, target)) && !p.Ended.Before(q.From) && (q.To.IsZero() || p.Ended.Before(q.To)) &&
		(q.Before == history.Position{} || newestFirst(q.Before, p) < 0)
}

// readPageQuery parses the parameters from, to, limit and cursor. Parameters with other names are
// refused, except the names in the argument extra.
func readPageQuery(raw string, extra ...string) (pageQuery, error) {
	values, err := kernel.ReadValues(raw, append([]string{"from", "to", "limit", "cursor"}, extra...)...)
	q := pageQuery{Query: history.Query{Limit: defaultPage}, values: values}
	if err != nil {
		return q, err
	}
	if q.From, q.To, err = readRange(values); err != nil {
		return q, err
	}
	if values.Has("limit") {
		text := values.Get("limit")
		q.Limit, err = strconv.Atoi(text)
		if err != nil || q.Limit < 1 || q.Limit > history.MostLimit || strconv.Itoa(q.Limit) != text {
			return q, kernel.NewProblem(kernel.CodeBadRequest, wantLimit)
		}
	}
	if values.Has("cursor") {
		var ok bool
		if q.Before, ok = decodeCursor(values.Get("cursor")); !ok {
			return q, kernel.NewProblem(kernel.CodeBadRequest, wantCursor)
		}
	}
	return q, nil
}

// readRange parses the parameters from and to. A missing parameter gives the zero time.
func readRange(values url.Values) (from, to time.Time, err error) {
	for _, moment := range []struct {
		name string
		into *time.Time
	}{{"from", &from}, {"to", &to}} {
		if !values.Has(moment.name) {
			continue
		}
		var ok bool
		if *moment.into, ok = readMoment(values.Get(moment.name)); !ok {
			return from, to, kernel.NewProblem(kernel.CodeBadRequest, moment.name+" "+wantMoment)
		}
	}
	if !to.IsZero() && !from.Before(to) {
		return from, to, kernel.NewProblem(kernel.CodeBadRequest, "from must be before to; the range excludes `to` itself")
	}
	return from, to, nil
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
	perDay   bool   // one line per day; false = all days together
	from, to time.Time
}

func readUsageQuery(raw string) (q usageQuery, err error) {
	values, err := kernel.ReadValues(raw, "by", "per", "from", "to")
	if err != nil {
		return q, err
	}
	if q.by = values.Get("by"); q.by != byOwner && q.by != byTarget && q.by != byKey {
		return q, kernel.NewProblem(kernel.CodeBadRequest, wantBy)
	}
	if q.perDay = values.Has("per"); q.perDay && values.Get("per") != "day" {
		return q, kernel.NewProblem(kernel.CodeBadRequest, wantPer)
	}
	q.from, q.to, err = readRange(values)
	return q, err
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
		err = kernel.NewProblem(kernel.CodeBadRequest, "from must not be after today if to is not given")
	case first.Before(oldest) || last.Sub(first) >= longestUsage*day:
		err = kernel.NewProblem(kernel.CodeBadRequest, fmt.Sprintf("from and to must span at most %d UTC days, none before %s: the %s keeps %v hours",
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
	at, ok := kernel.ReadTime(text)
	if !ok {
		return time.Time{}, false
	}
	whole := at.UTC().Truncate(time.Millisecond)
	if whole.Before(at) {
		whole = whole.Add(time.Millisecond)
	}
	return whole, storable(whole)
}

func readDay(text string) (time.Time, bool) {
	day, err := time.Parse(time.DateOnly, text)
	return day, err == nil && storable(day)
}

// storable reports whether all stores can represent a time.
func storable(at time.Time) bool { return at.Year() >= 1970 && at.Year() <= 9999 }

// encodeCursor encodes a position as a text that needs no escapes in a URL.
func encodeCursor(p history.Position) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(p.Ended.UnixMilli(), 10) + "." + p.ID))
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
	known := history.IsOrder(id) || entryID.MatchString(id)
	p := history.Position{Ended: time.UnixMilli(ms).UTC(), ID: id}
	if err != nil || !known || !storable(p.Ended) || encodeCursor(p) != text {
		return history.Position{}, false
	}
	return p, true
}

// entryID matches the id of an audit entry.
var entryID = regexp.MustCompile(`^[A-Z2-7]{26}$`)
