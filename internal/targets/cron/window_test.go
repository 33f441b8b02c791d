package cron

import (
	"strings"
	"testing"
	"time"
)

// window is a schedule together with the length of its windows.
type window struct {
	Schedule
	length time.Duration
}

func (w window) Next(at time.Time) (from, until time.Time) { return w.Window(at, w.length) }

func parsed(t failer, text, length string) window {
	s, err := Parse(text)
	if err != nil {
		t.Fatalf("%v", err)
	}
	long, err := time.ParseDuration(length)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return window{s, long}
}

// parseClock parses a time such as "2026-03-29 02:30:00 +01:00".
func parseClock(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse("2006-01-02 15:04:05 -07:00", text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestWindowReturnsTheNextOne(t *testing.T) {
	for _, tc := range []struct{ name, cron, long, at, from, until string }{
		{"before", "55 8 * * 1-5", "30m", "2026-01-05 08:00:00 +00:00", "2026-01-05 08:55:00 +00:00", "2026-01-05 09:25:00 +00:00"},
		{"as it begins", "55 8 * * 1-5", "30m", "2026-01-05 08:55:00 +00:00", "2026-01-05 08:55:00 +00:00", "2026-01-05 09:25:00 +00:00"},
		{"inside", "55 8 * * 1-5", "30m", "2026-01-05 09:24:59 +00:00", "2026-01-05 08:55:00 +00:00", "2026-01-05 09:25:00 +00:00"},
		{"as it ends", "55 8 * * 1-5", "30m", "2026-01-05 09:25:00 +00:00", "2026-01-06 08:55:00 +00:00", "2026-01-06 09:25:00 +00:00"},
		{"over a weekend", "55 8 * * mon-fri", "30m", "2026-01-09 12:00:00 +00:00", "2026-01-12 08:55:00 +00:00", "2026-01-12 09:25:00 +00:00"},
		{"over midnight", "30 23 * * *", "1h", "2026-01-06 00:15:00 +00:00", "2026-01-05 23:30:00 +00:00", "2026-01-06 00:30:00 +00:00"},
		{"a shorthand, asked from elsewhere", "@daily", "10m", "2026-07-05 11:00:00 +11:00", "2026-07-05 00:00:00 +00:00", "2026-07-05 00:10:00 +00:00"},
		{"asked from elsewhere", "55 8 * * *", "30m", "2026-01-05 23:00:00 +14:00", "2026-01-05 08:55:00 +00:00", "2026-01-05 09:25:00 +00:00"},
		{"overlapping: the first", "*/10 * * * *", "25m", "2026-01-05 09:04:00 +00:00", "2026-01-05 08:40:00 +00:00", "2026-01-05 09:05:00 +00:00"},
		{"overlapping: then the next", "*/10 * * * *", "25m", "2026-01-05 09:05:00 +00:00", "2026-01-05 08:50:00 +00:00", "2026-01-05 09:15:00 +00:00"},
		{"a second long", "0 0 * * *", "1s", "2026-01-05 00:00:01 +00:00", "2026-01-06 00:00:00 +00:00", "2026-01-06 00:00:01 +00:00"},
		{"hourly", "@hourly", "5m", "2026-01-05 08:06:00 +00:00", "2026-01-05 09:00:00 +00:00", "2026-01-05 09:05:00 +00:00"},
		{"daily", "@DAILY", "5m", "2026-01-05 08:06:00 +00:00", "2026-01-06 00:00:00 +00:00", "2026-01-06 00:05:00 +00:00"},
		{"weekly", "@weekly", "24h", "2026-01-05 08:06:00 +00:00", "2026-01-11 00:00:00 +00:00", "2026-01-12 00:00:00 +00:00"},
		{"monthly", "@monthly", "5m", "2026-01-05 08:06:00 +00:00", "2026-02-01 00:00:00 +00:00", "2026-02-01 00:05:00 +00:00"},
		{"yearly", "@yearly", "5m", "2026-01-05 08:06:00 +00:00", "2027-01-01 00:00:00 +00:00", "2027-01-01 00:05:00 +00:00"},
		{"capitals", "0 0 * MAR-APR THU", "5m", "2026-01-05 08:06:00 +00:00", "2026-03-05 00:00:00 +00:00", "2026-03-05 00:05:00 +00:00"},
		{"Sunday is 7 too", "0 0 * * 7", "5m", "2026-01-05 08:06:00 +00:00", "2026-01-11 00:00:00 +00:00", "2026-01-11 00:05:00 +00:00"},
		{"range past Saturday", "0 0 * * sat-sun", "5m", "2026-01-10 08:06:00 +00:00", "2026-01-11 00:00:00 +00:00", "2026-01-11 00:05:00 +00:00"},
		{"day or weekday", "0 0 13 * fri", "5m", "2026-01-10 08:06:00 +00:00", "2026-01-13 00:00:00 +00:00", "2026-01-13 00:05:00 +00:00"},
		{"weekday or day", "0 0 13 * fri", "5m", "2026-01-13 08:06:00 +00:00", "2026-01-16 00:00:00 +00:00", "2026-01-16 00:05:00 +00:00"},
		{"a step of days is no day", "0 0 */2 * fri", "5m", "2026-01-10 08:06:00 +00:00", "2026-01-23 00:00:00 +00:00", "2026-01-23 00:05:00 +00:00"},
		{"a leap year left out", "0 0 29 2 *", "5m", "2096-03-01 00:00:00 +00:00", "2104-02-29 00:00:00 +00:00", "2104-02-29 00:05:00 +00:00"},
		{"in a zone, winter", "CRON_TZ=Europe/Berlin 55 8 * * *", "30m", "2026-01-05 08:00:00 +00:00", "2026-01-05 07:55:00 +00:00", "2026-01-05 08:25:00 +00:00"},
		{"in a zone, summer", "CRON_TZ=Europe/Berlin 55 8 * * *", "30m", "2026-07-05 05:00:00 +00:00", "2026-07-05 06:55:00 +00:00", "2026-07-05 07:25:00 +00:00"},
		{"another day in the zone", "CRON_TZ=Pacific/Auckland 0 9 * * mon", "1h", "2026-01-01 00:00:00 +00:00", "2026-01-04 20:00:00 +00:00", "2026-01-04 21:00:00 +00:00"},
	} {
		from, until := parsed(t, tc.cron, tc.long).Next(parseClock(t, tc.at))
		if !from.Equal(parseClock(t, tc.from)) || !until.Equal(parseClock(t, tc.until)) || from.Location() != time.UTC || until.Location() != time.UTC {
			t.Errorf("%s: from %s until %s, want %s until %s", tc.name, from, until, tc.from, tc.until)
		}
	}
}

// Each case has a day on which clocks are set. The test calls Window at the end of each window.
func TestWindowWhenClocksAreSet(t *testing.T) {
	for _, tc := range []struct {
		name, cron, long, at string
		from                 []string
	}{
		{"Berlin forward: what is skipped begins as it is skipped", "CRON_TZ=Europe/Berlin 30 2 * * *", "30m", "2026-03-28 12:00:00 +01:00",
			[]string{"2026-03-29 03:00:00 +02:00", "2026-03-30 02:30:00 +02:00"}},
		{"Berlin forward: and runs on", "CRON_TZ=Europe/Berlin 30 2 * * *", "30m", "2026-03-29 03:29:59 +02:00",
			[]string{"2026-03-29 03:00:00 +02:00", "2026-03-30 02:30:00 +02:00"}},
		{"Berlin forward: over midnight and the hour", "CRON_TZ=Europe/Berlin 30 23 * * *", "6h", "2026-03-29 04:00:00 +02:00",
			[]string{"2026-03-28 23:30:00 +01:00", "2026-03-29 23:30:00 +02:00"}},
		{"Berlin forward: each hour", "CRON_TZ=Europe/Berlin 0 * * * *", "10m", "2026-03-29 01:30:00 +01:00",
			[]string{"2026-03-29 03:00:00 +02:00", "2026-03-29 04:00:00 +02:00"}},
		{"Berlin back: once", "CRON_TZ=Europe/Berlin 30 2 * * *", "30m", "2026-10-25 00:00:00 +02:00",
			[]string{"2026-10-25 02:30:00 +02:00", "2026-10-26 02:30:00 +01:00"}},
		{"Berlin back: asked in the second hour", "CRON_TZ=Europe/Berlin 30 2 * * *", "30m", "2026-10-25 02:10:00 +01:00",
			[]string{"2026-10-26 02:30:00 +01:00"}},
		{"Berlin back: still running in the second hour", "CRON_TZ=Europe/Berlin 30 2 * * *", "2h", "2026-10-25 02:10:00 +01:00",
			[]string{"2026-10-25 02:30:00 +02:00", "2026-10-26 02:30:00 +01:00"}},
		{"Berlin back: each hour", "CRON_TZ=Europe/Berlin 30 * * * *", "10m", "2026-10-25 01:40:00 +02:00",
			[]string{"2026-10-25 02:30:00 +02:00", "2026-10-25 02:30:00 +01:00", "2026-10-25 03:30:00 +01:00"}},
		{"Berlin back: each half hour of the night", "CRON_TZ=Europe/Berlin */30 1-2 * * *", "10m", "2026-10-25 01:40:00 +02:00",
			[]string{"2026-10-25 02:00:00 +02:00", "2026-10-25 02:30:00 +02:00", "2026-10-25 02:00:00 +01:00", "2026-10-25 02:30:00 +01:00", "2026-10-26 01:00:00 +01:00"}},
		{"Beirut: a day without a midnight", "CRON_TZ=Asia/Beirut 0 9 * * sun", "1h", "2026-03-28 12:00:00 +02:00",
			[]string{"2026-03-29 09:00:00 +03:00", "2026-04-05 09:00:00 +03:00"}},
		{"Beirut: the midnight itself", "CRON_TZ=Asia/Beirut @daily", "1h", "2026-03-28 12:00:00 +02:00",
			[]string{"2026-03-29 01:00:00 +03:00", "2026-03-30 00:00:00 +03:00"}},
		{"São Paulo: the midnight itself", "CRON_TZ=America/Sao_Paulo 0 0 * * *", "1h", "2018-11-03 12:00:00 -03:00",
			[]string{"2018-11-04 01:00:00 -02:00", "2018-11-05 00:00:00 -02:00"}},
		{"Lord Howe: half an hour forward", "CRON_TZ=Australia/Lord_Howe 15 2 * * *", "20m", "2026-10-03 12:00:00 +10:30",
			[]string{"2026-10-04 02:30:00 +11:00", "2026-10-05 02:15:00 +11:00"}},
		{"Lord Howe: and back", "CRON_TZ=Australia/Lord_Howe 45 1 * * *", "20m", "2026-04-04 12:00:00 +11:00",
			[]string{"2026-04-05 01:45:00 +11:00", "2026-04-06 01:45:00 +10:30"}},
		{"Apia: a day that was skipped", "CRON_TZ=Pacific/Apia 0 9 * * *", "1h", "2011-12-29 08:00:00 -10:00",
			[]string{"2011-12-29 09:00:00 -10:00", "2011-12-31 00:00:00 +14:00", "2011-12-31 09:00:00 +14:00"}},
	} {
		w, at := parsed(t, tc.cron, tc.long), parseClock(t, tc.at)
		for i, want := range tc.from {
			from, until := w.Next(at)
			if !from.Equal(parseClock(t, want)) || until.Sub(from) != w.length {
				t.Errorf("%s: window %d is from %s until %s, want it from %s", tc.name, i, from, until, want)
				break
			}
			at = until
		}
	}
}

// On the last day of a leap year, time.ZoneBounds may return an end that is not after the given
// time. Even so, Window neither loops forever nor skips a window.
func TestWindowAtTheEndOfALeapYear(t *testing.T) {
	for _, zone := range []string{"Europe/Berlin", "America/New_York", "Australia/Sydney"} {
		w := parsed(t, "CRON_TZ="+zone+" 0 9 * * *", "1h")
		at := time.Date(2028, time.December, 29, 9, 30, 0, 0, zoneOf(zone))
		for day := range 6 {
			from, until := w.Next(at)
			if want := time.Date(2028, time.December, 29+day, 9, 0, 0, 0, zoneOf(zone)); !from.Equal(want) {
				t.Errorf("%s: from %s, want %s", zone, from.In(zoneOf(zone)), want)
			}
			at = until
		}
	}
}

func TestZeroScheduleHasNoWindows(t *testing.T) {
	if from, until := (Schedule{}).Window(time.Now(), time.Hour); !from.IsZero() || !until.IsZero() {
		t.Errorf("from %s until %s", from, until)
	}
}

// Zones are cached, because a zone that is loaded again after a clock change is not deeply equal to
// the zone that was loaded first.
func TestZonesAreLoadedOnce(t *testing.T) {
	if first, again := zoneOf("Asia/Tokyo"), zoneOf("Asia/Tokyo"); first == nil || first != again {
		t.Error("a zone is not kept")
	}
}

// An expression has at most 1024 characters.
func TestParseLimitsTheLength(t *testing.T) {
	minutes := strings.Repeat("5,", 507)
	for text, want := range map[string]bool{"0" + minutes + "5 8 * * *": true, "00" + minutes + "5 8 * * *": false} {
		if _, err := Parse(text); (err == nil) != want || (len(text) == 1024) != want {
			t.Errorf("%d characters: %v", len(text), err)
		}
	}
}
