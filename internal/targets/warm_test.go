package targets

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

// window is an item of `warm`.
func window(cron string, tokens int, long string) string {
	return fmt.Sprintf("{cron: %q, tokens: %d, for: %s}", cron, tokens, long)
}

// warm is what becomes of one.
func warm(t *testing.T, cron string, tokens int, long string) Warm {
	t.Helper()
	return mustParse(t, minimal("warm: ["+window(cron, tokens, long)+"]"), nil).Targets[0].Warm[0]
}

// clock reads a moment such as "2026-03-29 02:30:00 +01:00".
func clock(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse("2006-01-02 15:04:05 -07:00", text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestWarmNext(t *testing.T) {
	for _, tc := range []struct{ name, cron, long, at, from, until string }{
		{"before", "55 8 * * 1-5", "30m", "2026-01-05 08:00:00 +00:00", "2026-01-05 08:55:00 +00:00", "2026-01-05 09:25:00 +00:00"},
		{"as it begins", "55 8 * * 1-5", "30m", "2026-01-05 08:55:00 +00:00", "2026-01-05 08:55:00 +00:00", "2026-01-05 09:25:00 +00:00"},
		{"inside", "55 8 * * 1-5", "30m", "2026-01-05 09:24:59 +00:00", "2026-01-05 08:55:00 +00:00", "2026-01-05 09:25:00 +00:00"},
		{"as it ends", "55 8 * * 1-5", "30m", "2026-01-05 09:25:00 +00:00", "2026-01-06 08:55:00 +00:00", "2026-01-06 09:25:00 +00:00"},
		{"over a weekend", "55 8 * * mon-fri", "30m", "2026-01-09 12:00:00 +00:00", "2026-01-12 08:55:00 +00:00", "2026-01-12 09:25:00 +00:00"},
		{"over midnight", "30 23 * * *", "1h", "2026-01-06 00:15:00 +00:00", "2026-01-05 23:30:00 +00:00", "2026-01-06 00:30:00 +00:00"},
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
		from, until := warm(t, tc.cron, 9, tc.long).Next(clock(t, tc.at))
		if !from.Equal(clock(t, tc.from)) || !until.Equal(clock(t, tc.until)) || from.Location() != time.UTC || until.Location() != time.UTC {
			t.Errorf("%s: from %s until %s, want %s until %s", tc.name, from, until, tc.from, tc.until)
		}
	}
}

// What Next says of the days on which clocks are set forward or back. Each case
// goes through the windows one by one, asking as each ends.
func TestWarmWhenClocksAreSet(t *testing.T) {
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
		w, at := warm(t, tc.cron, 9, tc.long), clock(t, tc.at)
		for i, want := range tc.from {
			from, until := w.Next(at)
			if !from.Equal(clock(t, want)) || until.Sub(from) != w.For {
				t.Errorf("%s: window %d is from %s until %s, want it from %s", tc.name, i, from, until, want)
				break
			}
			at = until
		}
	}
}

// The library's bounds of a zone are over, on the last day of a leap year, before
// they begin; Next neither loops nor loses a window.
func TestWarmAtTheEndOfALeapYear(t *testing.T) {
	for _, zone := range []string{"Europe/Berlin", "America/New_York", "Australia/Sydney"} {
		w := warm(t, "CRON_TZ="+zone+" 0 9 * * *", 9, "1h")
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

// Without CRON_TZ= the machine's zone does not matter, and with it neither.
func TestWarmOnAnotherMachine(t *testing.T) {
	at := clock(t, "2026-07-05 00:00:00 +00:00").In(time.FixedZone("far away", 11*60*60))
	for cron, want := range map[string]string{
		"55 8 * * *":                       "2026-07-05 08:55:00 +00:00",
		"@daily":                           "2026-07-05 00:00:00 +00:00",
		"CRON_TZ=UTC 55 8 * * *":           "2026-07-05 08:55:00 +00:00",
		"CRON_TZ=Europe/Berlin 55 8 * * *": "2026-07-05 06:55:00 +00:00",
	} {
		if from, _ := warm(t, cron, 9, "10m").Next(at); !from.Equal(clock(t, want)) {
			t.Errorf("%s: from %s, want %s", cron, from, want)
		}
	}
}

// A target's own windows replace those of the defaults, which stay as they are.
func TestWarmOfDefaults(t *testing.T) {
	second := func(lines string) string {
		return "  other:\n    type: recaptcha_v2\n    sitekey: k\n    pageurl: https://staging.example.com/o\n    owner: qa@example.com\n" + lines
	}
	defaults := "defaults:\n  warm: [" + window("0 8 * * *", 10, "30m") + ", " + window("0 9 * * *", 11, "30m") + "]\n"
	for _, tc := range []struct {
		name, own string
		want      []Warm
	}{
		{"inherited", "", []Warm{warm(t, "0 8 * * *", 10, "30m"), warm(t, "0 9 * * *", 11, "30m")}},
		{"replaced", "    warm: [" + window("0 7 * * *", 8, "1h") + "]\n", []Warm{warm(t, "0 7 * * *", 8, "1h")}},
		{"switched off", "    warm: []\n", nil},
		{"switched off by comments", "    warm:\n    # - none\n", nil},
	} {
		set := mustParse(t, defaults+minimal()+second(tc.own), nil)
		if got := set.Targets[1].Warm; !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
		if got := set.Targets[0].Warm; len(got) != 2 || got[0].Tokens != 10 || got[1].Tokens != 11 {
			t.Errorf("%s: the other target has %+v", tc.name, got)
		}
	}
	if got := mustParse(t, minimal(), nil).Targets[0].Warm; got != nil {
		t.Errorf("without the key: %+v", got)
	}
}

// A file that is read anew gives equal targets, or a reload would disturb every
// worker; and each key of a window makes another target.
func TestTargetsAreCompared(t *testing.T) {
	parse := func(lines ...string) Target { return mustParse(t, minimal(lines...), nil).Targets[0] }
	base := "warm: [" + window("CRON_TZ=Asia/Tokyo 0 8 * * *", 10, "30m") + "]"
	if !reflect.DeepEqual(parse(base), parse(base)) {
		t.Error("two readings of one file differ")
	}
	for _, other := range []string{
		"warm: []", "budget: {per_day: 6}",
		"warm: [" + window("CRON_TZ=Asia/Tokyo 0 9 * * *", 10, "30m") + "]",
		"warm: [" + window("CRON_TZ=Asia/Seoul 0 8 * * *", 10, "30m") + "]",
		"warm: [" + window("CRON_TZ=Asia/Tokyo 0 8 * * *", 11, "30m") + "]",
		"warm: [" + window("CRON_TZ=Asia/Tokyo 0 8 * * *", 10, "31m") + "]",
	} {
		if reflect.DeepEqual(parse(base), parse(other)) {
			t.Errorf("the same with %s", other)
		}
	}
	// A zone that is loaded after clocks were set differs from one loaded before.
	first, again := zoneOf("Asia/Tokyo"), zoneOf("Asia/Tokyo")
	if first == nil || first != again {
		t.Error("a zone is not kept")
	}
}

// What changes nothing, or is better said otherwise, is warned about and taken.
func TestWarmWarnings(t *testing.T) {
	list := func(items ...string) string { return "warm: [" + strings.Join(items, ", ") + "]" }
	const always = "so the tokens are always kept: depth says that better, or min with refill: adaptive"
	for _, tc := range []struct {
		name  string
		lines []string
		want  string // "" = none
	}{
		{"above depth", []string{list(window("0 8 * * *", 6, "1h"))}, ""},
		{"not above depth", []string{"warm:", "  - " + window("0 8 * * *", 6, "1h"), "  - " + window("0 9 * * *", 5, "1h")},
			"pools.yaml:11: targets.login.warm[1].tokens: is not above depth (5 of 5), so the window changes nothing"},
		{"not above depth, idle at times", []string{"idle_after: 1h", list(window("0 8 * * *", 5, "1h"))}, ""},
		{"adaptive, above min", []string{"refill: adaptive", "depth: 50", "min: 4", list(window("0 8 * * *", 5, "1h"))}, ""},
		{"adaptive, not above min", []string{"refill: adaptive", "depth: 50", "min: 5", list(window("0 8 * * *", 5, "1h"))},
			"pools.yaml:12: targets.login.warm[0].tokens: is not above min (5 of 5), so the window changes nothing"},
		{"each hour for an hour", []string{list(window("0 * * * *", 9, "1h"))},
			"pools.yaml:9: targets.login.warm[0].for: the next window begins before this one is over (1h), " + always},
		{"each hour for less", []string{list(window("0 * * * *", 9, "59m59s"))}, ""},
		{"daily for a day", []string{list(window("@daily", 9, "24h"))},
			"pools.yaml:9: targets.login.warm[0].for: the next window begins before this one is over (24h), " + always},
		{"each day but one, for a day", []string{list(window("0 0 * * 1-6", 9, "24h"))}, ""},
		{"each month but one, for a day", []string{list(window("0 0 * 2-12 *", 9, "24h"))}, ""},
		{"each day by number", []string{list(window("0 0 1-31 * *", 9, "24h"))},
			"pools.yaml:9: targets.login.warm[0].for: the next window begins before this one is over (24h), " + always},
		{"each day or a Monday", []string{list(window("0 0 1-31 * 1", 9, "24h"))},
			"pools.yaml:9: targets.login.warm[0].for: the next window begins before this one is over (24h), " + always},
		{"overlapping in the morning", []string{list(window("*/5 8 * * *", 9, "10m"))}, ""},
		{"the longest gap is over midnight", []string{list(window("0 1,13,20 * * *", 9, "11h"))}, ""},
		{"the longest gap is by day", []string{list(window("0 1,13,20 * * *", 9, "12h"))},
			"pools.yaml:9: targets.login.warm[0].for: the next window begins before this one is over (12h), " + always},
	} {
		var got []string
		for _, line := range strings.Split(warnings(mustParse(t, minimal(tc.lines...), nil)), "\n") {
			if strings.Contains(line, ".warm[") {
				got = append(got, line)
			}
		}
		if strings.Join(got, "\n") != tc.want {
			t.Errorf("%s:\n%q, want\n%q", tc.name, got, tc.want)
		}
	}
	// In the defaults they are for targets of all depths.
	text := "defaults: {warm: [" + window("0 8 * * *", 1, "1h") + "]}\n" + minimal()
	if got := warnings(mustParse(t, text, nil)); strings.Contains(got, "warm") {
		t.Errorf("warned of the defaults: %s", got)
	}
}

// What no file made has no windows.
func TestWarmOfNoFile(t *testing.T) {
	if from, until := (Warm{Cron: "0 8 * * *", Tokens: 1, For: time.Hour}).Next(time.Now()); !from.IsZero() || !until.IsZero() {
		t.Errorf("from %s until %s", from, until)
	}
}
