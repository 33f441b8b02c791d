package targets

import (
	"fmt"
	"testing"
	"time"

	"poold/internal/testkit"
)

func windowText(cron string, tokens int, long string) string {
	return fmt.Sprintf("{cron: %q, tokens: %d, for: %s}", cron, tokens, long)
}

func parseWarm(t *testing.T, cron string, tokens int, long string) Warm {
	t.Helper()
	return mustParse(t, minimal("warm: ["+windowText(cron, tokens, long)+"]"), References{}).Targets[0].Warm[0]
}

// In the night in which clocks are set, a window may be left out or begin twice: the limits that
// docs/refill.md names. All other nights have one window.
func TestNextWindow(t *testing.T) {
	clock := func(text string) time.Time {
		at, err := time.Parse("2006-01-02 15:04:05 -07:00", text)
		testkit.NoError(t, err)
		return at
	}
	const berlin = "CRON_TZ=Europe/Berlin "
	for _, tc := range []struct{ name, cron, long, at, from string }{
		{"before", "55 8 * * 1-5", "30m", "2026-01-05 08:00:00 +00:00", "2026-01-05 08:55:00 +00:00"},
		{"inside", "55 8 * * 1-5", "30m", "2026-01-05 09:24:59 +00:00", "2026-01-05 08:55:00 +00:00"},
		{"as it ends", "55 8 * * 1-5", "30m", "2026-01-05 09:25:00 +00:00", "2026-01-06 08:55:00 +00:00"},
		{"over a weekend", "55 8 * * mon-fri", "30m", "2026-01-09 12:00:00 +00:00", "2026-01-12 08:55:00 +00:00"},
		{"over midnight", "30 23 * * *", "1h", "2026-01-06 00:15:00 +00:00", "2026-01-05 23:30:00 +00:00"},
		{"asked from another zone", "@Daily", "10m", "2026-07-05 11:00:00 +11:00", "2026-07-05 00:00:00 +00:00"},
		{"overlapping: the first", "*/10 * * * *", "25m", "2026-01-05 09:04:00 +00:00", "2026-01-05 08:40:00 +00:00"},
		{"overlapping: then the next", "*/10 * * * *", "25m", "2026-01-05 09:05:00 +00:00", "2026-01-05 08:50:00 +00:00"},
		{"day or weekday", "0 0 13 * fri", "5m", "2026-01-10 08:06:00 +00:00", "2026-01-13 00:00:00 +00:00"},
		{"weekday or day", "0 0 13 * fri", "5m", "2026-01-13 08:06:00 +00:00", "2026-01-16 00:00:00 +00:00"},
		{"a leap day", "0 0 29 2 *", "5m", "2026-03-01 00:00:00 +00:00", "2028-02-29 00:00:00 +00:00"},
		{"in a zone, winter", berlin + "55 8 * * *", "30m", "2026-01-05 08:00:00 +00:00", "2026-01-05 07:55:00 +00:00"},
		{"in a zone, summer", berlin + "55 8 * * *", "30m", "2026-07-05 05:00:00 +00:00", "2026-07-05 06:55:00 +00:00"},
		{"skipped hour", berlin + "30 2 * * *", "30m", "2026-03-28 12:00:00 +01:00", "2026-03-30 02:30:00 +02:00"},
		{"repeated hour", berlin + "30 2 * * *", "30m", "2026-10-25 00:00:00 +02:00", "2026-10-25 02:30:00 +02:00"},
		{"repeated hour: again", berlin + "30 2 * * *", "30m", "2026-10-25 02:10:00 +01:00", "2026-10-25 02:30:00 +01:00"},
		{"last day of a leap year", berlin + "0 9 * * *", "1h", "2028-12-31 09:30:00 +01:00", "2028-12-31 09:00:00 +01:00"},
	} {
		w := parseWarm(t, tc.cron, 10, tc.long)
		from, until := w.Next(clock(tc.at))
		if !from.Equal(clock(tc.from)) || until.Sub(from) != w.For || from.Location() != time.UTC {
			t.Errorf("%s: from %s until %s, want it from %s", tc.name, from, until, tc.from)
		}
	}
}
