package targets

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // the image holds nothing but the binary, so the zones must be in it

	"github.com/netresearch/go-cron"
)

// schedule is a parsed cron expression. Two that were parsed from one text are
// deeply equal.
type schedule struct {
	calendar cron.SpecSchedule // of what a clock shows, in UTC, so that it knows of no clock that is set
	zone     *time.Location    // whose clocks; nil = no schedule
	repeats  bool              // a time that a clock shows twice counts twice
}

// after returns the first moment after t, in UTC.
//
// The library finds the next time that a clock can show; the zone is put on here.
// (Its own search loses days whose midnight is skipped, and what it finds for a
// skipped time depends on where it starts, so that a running window would vanish.)
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
		next := s.calendar.Next(from)
		_, offset := at.Zone()
		_, set := at.ZoneBounds()
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

// shown is what a clock shows at a moment, as if it were UTC.
func shown(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// longestGap is the longest time between one beginning and the next, 0 where it
// is more than a day. It does not regard clocks that are set.
func (s schedule) longestGap() time.Duration {
	const days, months, weekdays = 1<<32 - 2, 1<<13 - 2, 1<<7 - 1
	c := s.calendar
	anyDay, anyWeekday := c.Dom&days == days, c.Dow&weekdays == weekdays
	everyDay := anyDay && anyWeekday || c.DowOrDom && (anyDay || anyWeekday)
	if !everyDay || c.Month&months != months {
		return 0
	}
	const day = 24 * 60 // minutes, as are all below
	first, last, longest := -1, 0, 0
	for at := range day {
		if c.Hour>>(at/60)&1 == 0 || c.Minute>>(at%60)&1 == 0 {
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
var cronFields = []struct{ name, values string }{
	{"minute", "0 to 59"},
	{"hour", "0 to 23"},
	{"day", "1 to 31"},
	{"month", "1 to 12 or jan to dec"},
	{"weekday", "0 to 7 (0 and 7 are Sunday) or sun to sat"},
}

const (
	weekdayField = 4
	anyTime      = "*"
)

var (
	// cronItem is what a field lists. The library reads more, and reads it oddly:
	// *-5 is * to it, and +5 is 5.
	cronItem = regexp.MustCompile(`^(\*|[0-9a-z]+(-[0-9a-z]+)?)(/[0-9]+)?$`)

	weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

	cronNames = []string{"@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually"}

	// cronParser looks so far ahead that no day is missed: a 29 February that is a
	// given weekday may be 40 years away.
	cronParser = cron.MustNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor).WithMaxSearchYears(50)
)

// readCron reads when a window begins.
func readCron(v value, dst *Warm) bool {
	s := schedule{zone: time.UTC}
	e, ok := v.expansion(&dst.Cron)
	if !ok {
		return false
	}
	fields := strings.Fields(e.text)
	if len(fields) > 0 && strings.Contains(fields[0], "=") {
		prefix, name, _ := strings.Cut(fields[0], "=")
		if prefix != "CRON_TZ" {
			return v.fail("a time zone is given by CRON_TZ= in front of the fields%s", e.not())
		}
		if s.zone = zoneOf(name); s.zone == nil {
			e.text = name
			return v.fail("CRON_TZ= must name a time zone such as Europe/Berlin%s", e.not())
		}
		fields = fields[1:]
	}
	if rule := s.parse(fields); rule != "" {
		return v.fail("%s%s", rule, e.not())
	}
	dst.schedule = s
	return true
}

// parse reads the expression without its zone and answers what is wrong with it,
// "" for nothing.
func (s *schedule) parse(fields []string) (rule string) {
	for i := range fields {
		fields[i] = strings.ToLower(fields[i]) // the library takes the H of THU for another syntax
	}
	switch {
	case len(fields) > 0 && fields[0] == "@every":
		return `@every names no moments to begin at: write fields such as "*/30 * * * *" for each half hour`
	case len(fields) == 1 && slices.Contains(cronNames, fields[0]):
		s.repeats = fields[0] == "@hourly"
	case len(fields) > 0 && fields[0][0] == '@':
		return "must be " + orList(cronNames) + ", or five fields"
	case len(fields) != len(cronFields):
		rule = `must be five fields (minute hour day month weekday) such as "55 8 * * 1-5", or @daily and its like`
		if len(fields) > len(cronFields) {
			rule += ", without seconds and years"
		}
		return rule
	default:
		for i, field := range fields {
			if rule := checkField(i, field); rule != "" {
				return rule
			}
		}
		s.repeats = strings.Contains(fields[0]+fields[1], anyTime)
	}
	calendar := parseCron(strings.Join(fields, " "))
	if calendar == nil {
		return "must be a cron expression of at most " + strconv.Itoa(cron.MaxSpecLength) + " characters"
	}
	s.calendar, s.calendar.Location = *calendar, time.UTC
	// Where day and weekday are both given, crontab takes either.
	s.calendar.DowOrDom = len(fields) == len(cronFields) && !strings.Contains(fields[2]+fields[weekdayField], anyTime)
	if s.calendar.Next(time.Date(2001, time.January, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return "names a day that never comes: look at the day and the month"
	}
	return ""
}

// checkField answers what is wrong with one field, "" for nothing.
func checkField(i int, field string) (rule string) {
	f := cronFields[i]
	rule = "the " + f.name + " must be *, " + f.values + ", or a list, range or step of these such as 1,3-5 or */2"
	alone := slices.Repeat([]string{anyTime}, len(cronFields))
	for _, item := range strings.Split(field, ",") {
		if !cronItem.MatchString(item) {
			return rule
		}
		alone[i] = item
		if parseCron(strings.Join(alone, " ")) == nil {
			if strings.Contains(item, "/") {
				rule += "; a step must be above 0 and below the number of values that it goes through"
			}
			return rule
		}
		// The library would go on counting as if a week had eight days.
		if i == weekdayField && strings.Contains(item, "/") {
			from, to, _ := strings.Cut(item[:strings.IndexByte(item, '/')], "-")
			if weekdayNumber(from) > weekdayNumber(to) && to != "" {
				return "a weekday range with a step must not go past Saturday: list the days"
			}
		}
	}
	return ""
}

// weekdayNumber is the number of a weekday that the library has accepted.
func weekdayNumber(day string) int {
	if i := slices.Index(weekdays, day); i >= 0 {
		return i
	}
	n, _ := strconv.Atoi(day)
	return n
}

// parseCron asks the library, nil for what it refuses. Should it panic on odd
// input, a file being saved must not take the daemon down.
func parseCron(text string) (calendar *cron.SpecSchedule) {
	defer func() {
		if recover() != nil {
			calendar = nil
		}
	}()
	parsed, err := cronParser.Parse(text)
	if err != nil {
		return nil
	}
	calendar, _ = parsed.(*cron.SpecSchedule)
	return calendar
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
