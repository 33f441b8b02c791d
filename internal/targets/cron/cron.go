package cron

import (
	"math/bits"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // the container image has no time zone files
)

// Schedule is a parsed cron expression. The zero value has no windows.
type Schedule struct {
	text                              string
	minute, hour, day, month, weekday uint64         // bit n is set if the value n of the field matches
	either                            bool           // both day and weekday are restricted, so a match of either suffices
	repeats                           bool           // if the clocks show a time twice, a window begins both times
	zone                              *time.Location // nil for the zero value
}

// Error says why an expression is invalid.
type Error struct {
	Rule  string // the rule that the expression violates; never quotes the expression
	Value string // the invalid zone, or else the whole expression
}

// Error returns the rule that the expression violates, and the invalid value.
func (e *Error) Error() string { return e.Rule + ", not " + strconv.Quote(e.Value) }

const (
	anyTime = "*"

	// The search for the next window ends after longestSearch years. For example, the next 29
	// February on a given weekday may be 40 years away.
	longestSearch = 50

	maxText = 1024 // maximum length of an expression in bytes
)

// Parse parses a cron expression. The error is an *Error.
func Parse(text string) (Schedule, error) {
	s := Schedule{text: text, zone: time.UTC}
	fields := strings.Fields(text)
	if len(fields) > 0 && strings.Contains(fields[0], "=") {
		prefix, name, _ := strings.Cut(fields[0], "=")
		if prefix != "CRON_TZ" {
			return Schedule{}, &Error{"a time zone is given by CRON_TZ= in front of the fields", text}
		}
		if s.zone = zoneOf(name); s.zone == nil {
			return Schedule{}, &Error{"CRON_TZ= must name a time zone such as Europe/Berlin", name}
		}
		fields = fields[1:]
	}
	if rule := s.parse(strings.ToLower(strings.Join(fields, " "))); rule != "" {
		return Schedule{}, &Error{rule, text}
	}
	return s, nil
}

// String returns the expression as it was parsed.
func (s Schedule) String() string { return s.text }

// Window returns the start and the end, in UTC, of the first window of the given length that ends
// after t. The window may start before t. If windows overlap, Window returns the earliest window. A
// zero Schedule returns zero times.
func (s Schedule) Window(t time.Time, length time.Duration) (from, until time.Time) {
	if s.zone == nil {
		return time.Time{}, time.Time{}
	}
	from = s.nextBegin(t.Add(-length))
	return from, from.Add(length)
}

// nextBegin returns the start of the first window after t, in UTC.
//
// The method nextTime finds the next matching clock time without a zone. Then nextBegin finds the
// time at which the zone's clocks show this clock time. The package comment says what happens when
// the clocks are set.
func (s Schedule) nextBegin(t time.Time) time.Time {
	at := t.In(s.zone)
	from := clockTime(at)
	if set, _ := at.ZoneBounds(); !s.repeats && !set.IsZero() {
		if last := clockTime(set.Add(-1)); last.After(from) {
			from = last // the clocks have already shown all times up to last
		}
	}
	for {
		next := s.nextTime(from)
		_, offset := at.Zone()
		set := clocksSet(at)
		moment := next.Add(-time.Duration(offset) * time.Second)
		if set.IsZero() || moment.Before(set) {
			return moment
		}
		at = set
		switch now := clockTime(set); {
		case next.Before(now):
			return set.UTC() // the clocks skip the matching time
		case s.repeats:
			from = now.Add(-1)
		}
	}
}

// clocksSet returns the next time at which the clocks in the zone of t are set, or the zero time if
// there is none. On the last day of a leap year, time.ZoneBounds may return a time that is not
// after t. Without a check for such a time, nextBegin would loop forever.
func clocksSet(t time.Time) time.Time {
	_, set := t.ZoneBounds()
	if !set.IsZero() && !set.After(t) {
		return t.Add(12 * time.Hour)
	}
	return set
}

// clockTime returns the clock time of t in its zone, as a time.Time in UTC.
func clockTime(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// nextTime returns the first matching clock time after the given time, or the zero time.
func (s Schedule) nextTime(from time.Time) time.Time {
	t := from.Truncate(time.Minute).Add(time.Minute)
	for end := t.AddDate(longestSearch, 0, 0); t.Before(end); {
		switch year, month, day := t.Date(); {
		case !holds(s.month, int(month)):
			t = time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC)
		case !s.onDay(t):
			t = time.Date(year, month, day+1, 0, 0, 0, 0, time.UTC)
		case !holds(s.hour, t.Hour()):
			t = t.Truncate(time.Hour).Add(time.Hour)
		case !holds(s.minute, t.Minute()):
			t = t.Add(time.Minute)
		default:
			return t
		}
	}
	return time.Time{}
}

// onDay reports whether the day of the month and the weekday of t match. It ignores the month.
func (s Schedule) onDay(t time.Time) bool {
	day, weekday := holds(s.day, t.Day()), holds(s.weekday, int(t.Weekday()))
	if s.either {
		return day || weekday
	}
	return day && weekday
}

func holds(values uint64, n int) bool { return values>>n&1 == 1 }

// LongestGap returns the longest time between the starts of two consecutive windows, or 0 if this
// time is longer than a day. It ignores clock changes.
func (s Schedule) LongestGap() time.Duration {
	anyDay, anyWeekday := bits.OnesCount64(s.day) == 31, bits.OnesCount64(s.weekday) == 7
	everyDay := anyDay && anyWeekday || s.either && (anyDay || anyWeekday)
	if !everyDay || bits.OnesCount64(s.month) != 12 {
		return 0
	}
	const day = 24 * 60 // in minutes, like all variables below
	first, last, longest := -1, 0, 0
	for at := range day {
		if !holds(s.hour, at/60) || !holds(s.minute, at%60) {
			continue
		}
		if first < 0 {
			first = at
		} else {
			longest = max(longest, at-last)
		}
		last = at
	}
	return time.Duration(max(longest, day-last+first)) * time.Minute
}

// cronFields lists the fields of an expression, in order.
var cronFields = []struct {
	name, values string
	least, most  int
	names        []string // names of the values; the first name stands for the minimum
}{
	{"minute", "0 to 59", 0, 59, nil},
	{"hour", "0 to 23", 0, 23, nil},
	{"day", "1 to 31", 1, 31, nil},
	{"month", "1 to 12 or jan to dec", 1, 12, []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
	{"weekday", "0 to 7 (0 and 7 are Sunday) or sun to sat", 0, 7, []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
}

const weekdayField = 4

// cronItem matches one item of a field: a star, a value or a range, with an optional step.
var cronItem = regexp.MustCompile(`^(\*|([0-9a-z]+)(?:-([0-9a-z]+))?)(?:/([0-9]+))?$`)

// cronNames lists the names that stand for whole expressions.
var cronNames = []struct{ name, fields string }{
	{"@hourly", "0 * * * *"}, {"@daily", "0 0 * * *"}, {"@midnight", "0 0 * * *"}, {"@weekly", "0 0 * * 0"},
	{"@monthly", "0 0 1 * *"}, {"@yearly", "0 0 1 1 *"}, {"@annually", "0 0 1 1 *"},
}

// parse parses an expression in lower case, with single spaces and without a zone prefix. It
// returns the rule that the expression violates, or "".
func (s *Schedule) parse(text string) (rule string) {
	fields := strings.Fields(text)
	if strings.HasPrefix(text, "@") {
		var names []string
		for _, known := range cronNames {
			names = append(names, known.name)
			if text == known.name {
				fields = strings.Fields(known.fields)
			}
		}
		switch {
		case fields[0] == "@every":
			return `@every is not supported, because it has no fixed begin: write fields such as "*/30 * * * *" for each half hour`
		case fields[0][0] == '@':
			last := len(names) - 1
			return "must be " + strings.Join(names[:last], ", ") + " or " + names[last] + ", or five fields"
		}
	}
	if len(fields) != len(cronFields) {
		rule = `must be five fields (minute hour day month weekday) such as "55 8 * * 1-5", or @daily and its like`
		if len(fields) > len(cronFields) {
			rule += ", without seconds and years"
		}
		return rule
	}
	for i, values := range []*uint64{&s.minute, &s.hour, &s.day, &s.month, &s.weekday} {
		if *values, rule = cronValues(i, fields[i]); rule != "" {
			return rule
		}
	}
	if len(text) > maxText {
		return "must be a cron expression of at most " + strconv.Itoa(maxText) + " characters"
	}
	s.repeats = strings.Contains(fields[0]+fields[1], anyTime)
	s.either = !strings.Contains(fields[2]+fields[weekdayField], anyTime)
	if s.nextTime(time.Date(2001, time.January, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return "names a day that never occurs: check the day and the month"
	}
	return ""
}

// cronValues parses a field of an expression. The argument `number` is the index of the field in
// cronFields. If the field is valid, the result `rule` is "".
func cronValues(number int, field string) (values uint64, rule string) {
	f := cronFields[number]
	rule = "the " + f.name + " must be *, " + f.values + ", or a list, range or step of these such as 1,3-5 or */2"
	valueOf := func(word string) int {
		if i := slices.Index(f.names, word); i >= 0 {
			return f.least + i
		}
		if n, err := strconv.Atoi(word); err == nil && f.least <= n && n <= f.most {
			return n
		}
		return -1
	}
	for _, item := range strings.Split(field, ",") {
		parts := cronItem.FindStringSubmatch(item)
		if parts == nil {
			return 0, rule
		}
		from, to, step := f.least, f.most, 1
		if parts[1] != anyTime {
			from = valueOf(parts[2])
			switch {
			case parts[3] != "":
				to = valueOf(parts[3])
			case parts[4] == "":
				to = from
			}
		}
		stepRule := rule
		if parts[4] != "" {
			stepRule += "; a step must be above 0 and below the number of values that it goes through"
			step, _ = strconv.Atoi(parts[4])
		}
		if from < 0 || to < 0 || step < 1 {
			return 0, stepRule
		}
		count := f.most - f.least + 1
		through := (to - from + count) % count // number of values after the first; a range may wrap around
		if step > 1 && step > through {
			return 0, stepRule
		}
		// Steps past Saturday would be wrong, because the eight values 0 to 7 stand for only seven
		// days.
		if number == weekdayField && parts[4] != "" && from > to {
			return 0, "a weekday range with a step must not go past Saturday: list the days"
		}
		for n := 0; n <= through; n += step {
			values |= 1 << (f.least + (from-f.least+n)%count)
		}
	}
	if number == weekdayField && holds(values, 7) {
		values = values&^(1<<7) | 1 // both 0 and 7 mean Sunday
	}
	return values, ""
}

// zones caches every loaded zone. Equal schedules must have the same *time.Location, because two
// locations with the same name may not be deeply equal if they were loaded at different times.
var zones sync.Map // name -> *time.Location

// zoneOf returns the time zone with this name, or nil if there is none.
func zoneOf(name string) *time.Location {
	if zone, ok := zones.Load(name); ok {
		return zone.(*time.Location)
	}
	// The names Local and "" are refused: Local depends on the machine, and time.LoadLocation reads ""
	// as UTC.
	if name == "" || name == "Local" {
		return nil
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil
	}
	kept, _ := zones.LoadOrStore(name, zone)
	return kept.(*time.Location)
}
