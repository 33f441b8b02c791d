package targets

import (
	"math/bits"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // the image holds nothing but the binary, so the zones must be in it
)

// schedule is a parsed cron expression. Two that were parsed from one text are
// deeply equal.
type schedule struct {
	text                              string
	minute, hour, day, month, weekday uint64         // what each field lists: bit n stands for the value n
	either                            bool           // day and weekday are both given: either will do
	repeats                           bool           // a time that a clock shows twice counts twice
	zone                              *time.Location // whose clocks; nil = no schedule
}

const (
	anyTime = "*"

	// longestSearch is so long, in years, that no day is missed: a 29 February that
	// is a given weekday may be 40 years away.
	longestSearch = 50

	maxCron = 1024 // characters
)

// after returns the first moment after t, in UTC.
//
// next finds the next time that a clock can show; the zone is put on here.
// A time that clocks skip when they are set forward is the moment at which they
// are set. Of a time that they show twice when they are set back only the first
// counts, as crontab has it, unless the minute or the hour is a *.
func (s schedule) after(t time.Time) time.Time {
	at := t.In(s.zone)
	from := shown(at)
	if set, _ := at.ZoneBounds(); !s.repeats && !set.IsZero() {
		if last := shown(set.Add(-1)); last.After(from) {
			from = last // all until then was shown before
		}
	}
	for {
		next := s.next(from)
		_, offset := at.Zone()
		set := clocksSet(at)
		moment := next.Add(-time.Duration(offset) * time.Second)
		if set.IsZero() || moment.Before(set) {
			return moment
		}
		at = set
		switch now := shown(set); {
		case next.Before(now):
			return set.UTC() // skipped
		case s.repeats:
			from = now.Add(-1)
		}
	}
}

// clocksSet is when the clocks of at's zone are set next, or not later than that;
// the zero time is never. On the last day of a leap year the library answers a time
// that is over, and asked again would answer it for ever.
func clocksSet(at time.Time) time.Time {
	_, set := at.ZoneBounds()
	if !set.IsZero() && !set.After(at) {
		return at.Add(12 * time.Hour)
	}
	return set
}

// shown is what a clock shows at a moment, as if it were UTC.
func shown(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// next returns the first time after from that a clock can show, the zero time
// where there is none.
func (s schedule) next(from time.Time) time.Time {
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

// onDay reports whether windows begin on this day of a right month.
func (s schedule) onDay(t time.Time) bool {
	day, weekday := holds(s.day, t.Day()), holds(s.weekday, int(t.Weekday()))
	if s.either {
		return day || weekday
	}
	return day && weekday
}

func holds(values uint64, n int) bool { return values>>n&1 == 1 }

// longestGap is the longest time between one beginning and the next, 0 where it
// is more than a day. It does not regard clocks that are set.
func (s schedule) longestGap() time.Duration {
	anyDay, anyWeekday := bits.OnesCount64(s.day) == 31, bits.OnesCount64(s.weekday) == 7
	everyDay := anyDay && anyWeekday || s.either && (anyDay || anyWeekday)
	if !everyDay || bits.OnesCount64(s.month) != 12 {
		return 0
	}
	const day = 24 * 60 // minutes, as are all below
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

// cronFields are the fields of an expression, in order.
var cronFields = []struct {
	name, values string
	least, most  int
	names        []string // of the values, from the least on
}{
	{"minute", "0 to 59", 0, 59, nil},
	{"hour", "0 to 23", 0, 23, nil},
	{"day", "1 to 31", 1, 31, nil},
	{"month", "1 to 12 or jan to dec", 1, 12, []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
	{"weekday", "0 to 7 (0 and 7 are Sunday) or sun to sat", 0, 7, []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
}

const weekdayField = 4

// cronItem is what a field lists: *, a value or a range, and perhaps a step.
var cronItem = regexp.MustCompile(`^(\*|([0-9a-z]+)(?:-([0-9a-z]+))?)(?:/([0-9]+))?$`)

// cronNames stand for expressions.
var cronNames = []struct{ name, fields string }{
	{"@hourly", "0 * * * *"}, {"@daily", "0 0 * * *"}, {"@midnight", "0 0 * * *"}, {"@weekly", "0 0 * * 0"},
	{"@monthly", "0 0 1 * *"}, {"@yearly", "0 0 1 1 *"}, {"@annually", "0 0 1 1 *"},
}

// cron is when windows begin, as a schedule.
var cron = textual{parse: func(e expansion) (any, string) {
	s := schedule{text: e.text, zone: time.UTC}
	fields := strings.Fields(e.text)
	if len(fields) > 0 && strings.Contains(fields[0], "=") {
		prefix, name, _ := strings.Cut(fields[0], "=")
		if prefix != "CRON_TZ" {
			return nil, "a time zone is given by CRON_TZ= in front of the fields" + e.not()
		}
		if s.zone = zoneOf(name); s.zone == nil {
			e.text = name
			return nil, "CRON_TZ= must name a time zone such as Europe/Berlin" + e.not()
		}
		fields = fields[1:]
	}
	if rule := s.parse(strings.ToLower(strings.Join(fields, " "))); rule != "" {
		return nil, rule + e.not()
	}
	return s, ""
}}

// parse reads the expression without its zone, in small letters and with single
// spaces, and answers what is wrong with it, "" for nothing.
func (s *schedule) parse(text string) (rule string) {
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
			return `@every names no moments to begin at: write fields such as "*/30 * * * *" for each half hour`
		case fields[0][0] == '@':
			return "must be " + orList(names) + ", or five fields"
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
	if len(text) > maxCron {
		return "must be a cron expression of at most " + strconv.Itoa(maxCron) + " characters"
	}
	s.repeats = strings.Contains(fields[0]+fields[1], anyTime)
	s.either = !strings.Contains(fields[2]+fields[weekdayField], anyTime)
	if s.next(time.Date(2001, time.January, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return "names a day that never comes: look at the day and the month"
	}
	return ""
}

// cronValues reads the field of that number. rule says what is wrong with it.
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
		through := (to - from + count) % count // as many more values are gone through, past the last one too
		if step > 1 && step > through {
			return 0, stepRule
		}
		// Counting on would make a week of eight days.
		if number == weekdayField && parts[4] != "" && from > to {
			return 0, "a weekday range with a step must not go past Saturday: list the days"
		}
		for n := 0; n <= through; n += step {
			values |= 1 << (f.least + (from-f.least+n)%count)
		}
	}
	if number == weekdayField && holds(values, 7) {
		values = values&^(1<<7) | 1 // 7 is Sunday too
	}
	return values, ""
}

// zones holds each time zone that was ever asked for: equal schedules need the
// same *time.Location, because two that were loaded at different times differ.
var zones sync.Map // name -> *time.Location

// zoneOf loads a time zone by name, nil where there is none.
func zoneOf(name string) *time.Location {
	if zone, ok := zones.Load(name); ok {
		return zone.(*time.Location)
	}
	// Local would be another zone on each machine, and "" is UTC to the library.
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
