package cron

import (
	"errors"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"poold/internal/testkit"
)

// drawnField is one field of a random expression: the text and the matching values.
type drawnField struct {
	text   string
	values map[int]bool
}

// star reports whether the field is a star, with or without a step.
func (f drawnField) star() bool { return strings.HasPrefix(f.text, "*") }

// drawField returns a random field with values from lo to hi.
func drawField(t *rapid.T, lo, hi int, label string) drawnField {
	f := drawnField{values: map[int]bool{}}
	number := func(from int, label string) int { return rapid.IntRange(from, hi).Draw(t, label) }
	kinds := []string{"*", "*/n", "list", "range", "range/n", "range/n"}
	if label == "month" || label == "day" || label == "weekday" {
		kinds = append(kinds, "*", "*", "*", "*") // with fewer stars, most windows would come in another month
	}
	switch rapid.SampledFrom(kinds).Draw(t, label) {
	case "*":
		f.text = "*"
		f.add(lo, hi, 1)
	case "*/n":
		step := rapid.IntRange(2, hi-lo).Draw(t, "step")
		f.text = fmt.Sprintf("*/%d", step)
		f.add(lo, hi, step)
	case "list":
		var items []string
		for range rapid.IntRange(1, 4).Draw(t, "items") {
			n := number(lo, "item")
			items = append(items, strconv.Itoa(n))
			f.add(n, n, 1)
		}
		f.text = strings.Join(items, ",")
	case "range":
		from := number(lo, "from")
		to := number(from, "to")
		f.text = fmt.Sprintf("%d-%d", from, to)
		f.add(from, to, 1)
	case "range/n":
		from := rapid.IntRange(lo, hi-2).Draw(t, "from")
		to := number(from+2, "to")
		f.text = fmt.Sprintf("%d-%d/2", from, to)
		f.add(from, to, 2)
	}
	return f
}

func (f drawnField) add(from, to, step int) {
	for n := from; n <= to; n += step {
		f.values[n] = true
	}
}

// oracle finds windows by testing the clock time of every minute.
type oracle struct{ minute, hour, day, month, weekday drawnField }

func drawOracle(t *rapid.T) oracle {
	return oracle{
		minute: drawField(t, 0, 59, "minute"), hour: drawField(t, 0, 23, "hour"), day: drawField(t, 1, 31, "day"),
		month: drawField(t, 1, 12, "month"), weekday: drawField(t, 0, 6, "weekday"),
	}
}

func (o oracle) text() string {
	return strings.Join([]string{o.minute.text, o.hour.text, o.day.text, o.month.text, o.weekday.text}, " ")
}

// beginsAt reports whether a window starts at this clock time.
func (o oracle) beginsAt(shown time.Time) bool {
	day, weekday := o.day.values[shown.Day()], o.weekday.values[int(shown.Weekday())]
	if o.day.star() || o.weekday.star() {
		day = day && weekday
	} else {
		day = day || weekday
	}
	return day && o.month.values[int(shown.Month())] && o.hour.values[shown.Hour()] && o.minute.values[shown.Minute()]
}

// windowBegins returns the starts of windows in a period. It tests each minute of the period with
// the clock time of the zone.
func (o oracle) windowBegins(from, to time.Time, zone *time.Location) []time.Time {
	var all []time.Time
	wall := func(at time.Time) time.Time {
		l := at.In(zone)
		return time.Date(l.Year(), l.Month(), l.Day(), l.Hour(), l.Minute(), 0, 0, time.UTC)
	}
	seen := map[int64]bool{}
	// In the tested zones, clocks are set back by at most three hours.
	for at := from.Add(-3 * time.Hour); at.Before(from); at = at.Add(time.Minute) {
		seen[wall(at).Unix()] = true
	}
	for at := from; at.Before(to); at = at.Add(time.Minute) {
		now := wall(at)
		begins := o.beginsAt(now) && (!seen[now.Unix()] || o.minute.star() || o.hour.star())
		seen[now.Unix()] = true
		for skipped := wall(at.Add(-time.Minute)).Add(time.Minute); skipped.Before(now); skipped = skipped.Add(time.Minute) {
			begins = begins || o.beginsAt(skipped)
		}
		if begins {
			all = append(all, at)
		}
	}
	return all
}

// clockChanges lists time zones. Each zone has days shortly before its clocks are set.
var clockChanges = []struct {
	zone string
	days []string
}{
	{"UTC", []string{"2026-01-01", "2028-02-26"}},
	{"Europe/Berlin", []string{"2026-03-27", "2026-10-23", "2026-06-01"}},
	{"Asia/Beirut", []string{"2026-03-27"}},
	{"Africa/Cairo", []string{"2026-04-22", "2026-10-28"}},
	{"Australia/Lord_Howe", []string{"2026-04-03", "2026-10-02"}}, // half an hour
	{"America/St_Johns", []string{"2026-03-06", "2026-10-30"}},
	{"Antarctica/Troll", []string{"2026-03-27", "2026-10-23"}}, // two hours
	{"Pacific/Apia", []string{"2011-12-28"}},                   // a whole day
}

// compareWindows compares the result of Window at each given time with the oracle's windows.
func compareWindows(t failer, w window, begins []time.Time, end time.Time, moments ...time.Time) {
	for _, at := range moments {
		from, until := w.Next(at)
		i := sort.Search(len(begins), func(i int) bool { return begins[i].Add(w.length).After(at) })
		switch {
		case i == len(begins) && from.Before(end):
			t.Fatalf("%s for %s at %s: from %s, the clock says never until %s", w.Schedule, w.length, at, from, end)
		case i < len(begins) && (!from.Equal(begins[i]) || !until.Equal(begins[i].Add(w.length))):
			t.Fatalf("%s for %s at %s: from %s until %s, the clock says from %s", w.Schedule, w.length, at, from, until, begins[i])
		}
	}
}

type failer interface {
	Fatalf(format string, args ...any)
}

// Window agrees with an oracle that tests every minute of a week.
func TestWindowAgreesWithAClock(t *testing.T) {
	testkit.WithoutRace(t)
	rapid.Check(t, func(rt *rapid.T) {
		place := rapid.SampledFrom(clockChanges).Draw(rt, "zone")
		start, err := time.Parse(time.DateOnly, rapid.SampledFrom(place.days).Draw(rt, "start"))
		if err != nil {
			rt.Fatal(err)
		}
		o := drawOracle(rt)
		long := time.Duration(rapid.SampledFrom([]int{1, 60, 1799, 3600, 3 * 3600, 24 * 3600}).Draw(rt, "for")) * time.Second
		s, err := Parse("CRON_TZ=" + place.zone + " " + o.text())
		if err != nil {
			if strings.Contains(err.Error(), "never occurs") && len(o.windowBegins(start, start.AddDate(4, 0, 0), time.UTC)) == 0 {
				return
			}
			rt.Fatal(err)
		}
		end := start.AddDate(0, 0, 8)
		begins := o.windowBegins(start.Add(-long-time.Minute).Truncate(time.Minute), end, zoneOf(place.zone))
		for range 20 {
			at := start.Add(time.Duration(rapid.Int64Range(0, int64(end.Sub(start))-1).Draw(rt, "at")))
			compareWindows(rt, window{s, long}, begins, end, at, at.Truncate(time.Minute))
		}
	})
}

// Window agrees with the oracle in the hours around clock changes, for expressions about these hours.
func TestWindowAgreesWithAClockThatIsSet(t *testing.T) {
	testkit.WithoutRace(t)
	some := func(values ...int) drawnField {
		f := drawnField{values: map[int]bool{}}
		var items []string
		for _, n := range values {
			f.values[n] = true
			items = append(items, strconv.Itoa(n))
		}
		f.text = strings.Join(items, ",")
		return f
	}
	all := func(lo, hi int) drawnField {
		f := drawnField{text: "*", values: map[int]bool{}}
		f.add(lo, hi, 1)
		return f
	}
	o := oracle{day: all(1, 31), month: all(1, 12), weekday: all(0, 6)}
	hours := []drawnField{some(0), some(1), some(2), some(3), some(0, 1, 2, 3, 4), some(23), all(0, 23)}
	for _, place := range clockChanges {
		for _, day := range place.days {
			zone := zoneOf(place.zone)
			set := parseClock(t, day+" 00:00:00 +00:00").AddDate(0, 0, 2)
			if _, next := set.AddDate(0, 0, -2).In(zone).ZoneBounds(); !next.IsZero() && next.Before(set.AddDate(0, 0, 3)) {
				set = next.UTC()
			}
			start, end := set.Add(-8*time.Hour), set.Add(30*time.Hour)
			var moments []time.Time
			for at := set.Add(-4 * time.Hour); at.Before(set.Add(4 * time.Hour)); at = at.Add(5 * time.Minute) {
				moments = append(moments, at.Add(-1), at)
			}
			for _, o.hour = range hours {
				for _, o.minute = range []drawnField{some(30), some(0, 15, 45), all(0, 59)} {
					begins := o.windowBegins(start, end, zone)
					for _, long := range []string{"1m", "45m", "3h"} {
						compareWindows(t, parsed(t, "CRON_TZ="+place.zone+" "+o.text(), long), begins, end, moments...)
					}
				}
			}
		}
	}
}

// FuzzCron looks for a panic, and for a window that never begins.
func FuzzCron(f *testing.F) {
	for _, text := range []string{
		"55 8 * * 1-5", "* * * * *", "*/7 22-3/2 28-2 nov-feb fri-mon", "0 0 29 2 1", "0 0 31 2 *", "1,2,3-5/2 5/3 * * 7",
		"CRON_TZ=Europe/Berlin 30 2 * * *", "CRON_TZ=America/Sao_Paulo @daily", "TZ=UTC * * * * *", "CRON_TZ= * * * * *", "CRON_TZ=", "@every 5m", "@", "",
		"*-5 +5 -5 5- /", "99999999999999999999 * * * *", "0 */9223372036854775807 * * *", "H H(1-2) L 15W 5#3",
	} {
		f.Add(text, int64(1774746000))
	}
	f.Fuzz(func(t *testing.T, text string, at int64) {
		s, err := Parse(text)
		if err != nil {
			var invalid *Error
			if !errors.As(err, &invalid) || invalid.Rule == "" || !strings.Contains(text, invalid.Value) {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		// The drawn time is between 1970 and 2200.
		const span = 230 * 365 * 24 * 60 * 60
		now := time.Unix((at%span+span)%span, 999)
		from, until := s.Window(now, time.Minute)
		if !until.After(now) || until.Sub(from) != time.Minute || from.Location() != time.UTC || from.Year() > now.Year()+50 {
			t.Fatalf("%q at %s: from %s until %s", text, now, from, until)
		}
		if gap := s.LongestGap(); gap < 0 || gap > 24*time.Hour {
			t.Fatalf("%q: gap %s", text, gap)
		}
	})
}
