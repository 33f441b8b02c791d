package historyapi

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/history"
	"poold/internal/httpapi/kernel"
)

// thatDay is a time with milliseconds, so that a test fails if the milliseconds are lost.
var thatDay = time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)

// TestHangingStoreIsGivenUpInTime: a query to a hanging store ends before the time limit of the
// response.
func TestHangingStoreIsGivenUpInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, err := read(httptest.NewRequest("GET", "/", nil), func(ctx context.Context) (any, error) {
			<-ctx.Done()
			return nil, errors.New("the driver's own words")
		})
		if took := time.Since(began); !errors.Is(err, history.ErrDown) || took >= kernel.WriteLimit || took < time.Second {
			t.Errorf("after %v: %v", took, err)
		}
		other := errors.New("at once")
		if _, err := read(httptest.NewRequest("GET", "/", nil), func(context.Context) (any, error) { return nil, other }); !errors.Is(err, other) || errors.Is(err, history.ErrDown) {
			t.Error(err)
		}
	})
}

// FuzzCursor: a cursor is accepted only if it comes from the API.
func FuzzCursor(f *testing.F) {
	const order = "ORDER001.0123456789abcdef0123456789abcdef"
	good := encodeCursor(history.Position{Ended: thatDay, ID: order})
	for _, seed := range []string{good, good + "=", strings.ToLower(good), "", "MS4u", "LTEuT1JERVIwMDEuMDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY", "MDAxLk8uMDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY",
		encodeCursor(history.Position{Ended: time.UnixMilli(1 << 60), ID: order}), encodeCursor(history.Position{Ended: thatDay, ID: rand.Text()}), encodeCursor(history.Position{Ended: thatDay, ID: "A"})} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, ok := decodeCursor(text)
		if !ok {
			return
		}
		if !history.IsOrder(p.ID) && !entryID.MatchString(p.ID) || p.Ended.Year() < 1970 || p.Ended.Year() > 9999 || p.Ended.Location() != time.UTC || encodeCursor(p) != text {
			t.Errorf("%q is %+v", text, p)
		}
	})
}

// FuzzMoment: a time is rounded up to whole milliseconds.
func FuzzMoment(f *testing.F) {
	for _, seed := range []string{"2026-01-02", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05.678901+02:00", "2026-01-02t03:04:05z", "2026-02-30", "9999-12-31T23:59:59.9999Z", "1969-12-31T23:00:00-02:00", "2026-01-02T03:04:60Z", "2026-01-02 03:04:05Z", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, ok := readMoment(text)
		if !ok {
			return
		}
		want, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			want, err = time.Parse("2006-01-02", text)
		}
		if late := got.Sub(want); err != nil || late < 0 || late >= time.Millisecond || got.Nanosecond()%1e6 != 0 || got.Location() != time.UTC || got.Year() < 1970 || got.Year() > 9999 {
			t.Errorf("%q is %s, want %s, %v", text, got, want, err)
		}
	})
}

// TestUsageDaysAreKeptAndFew: a query for too many days or for days that are no longer kept is
// refused, and the error contains the limits.
func TestUsageDaysAreKeptAndFew(t *testing.T) {
	const week = 7 * 24 * time.Hour
	const none = "none before "
	for _, c := range []struct {
		query       string
		keep        time.Duration
		first, last string
		refused     string
	}{
		{"", week, "2025-12-27", "2026-01-02", ""},
		{"", 90 * 24 * time.Hour, "2025-12-27", "2026-01-02", ""},
		{"", 24 * time.Hour, "2026-01-02", "2026-01-02", ""}, // no earlier day is complete
		{"", 27 * time.Hour, "2026-01-02", "2026-01-02", ""},
		{"", 28 * time.Hour, "2026-01-01", "2026-01-02", ""},
		{"&from=2025-12-27", week, "2025-12-27", "2026-01-02", ""},
		{"&from=2026-01-02T04:00:00Z", week, "2026-01-02", "2026-01-02", ""}, // today, although the time is in the future
		{"&to=2026-01-02", week, "2025-12-27", "2026-01-01", ""},             // the default would begin on 2025-12-26
		{"&to=2025-12-28", week, "2025-12-27", "2025-12-27", ""},
		{"&to=2026-01-02T00:00:00.001Z", week, "2025-12-27", "2026-01-02", ""},
		{"&to=2026-02-01", week, "2026-01-25", "2026-01-31", ""},
		{"&from=2026-01-01T23:00:00-02:00", week, "2026-01-02", "2026-01-02", ""},
		{"&from=2025-12-31&to=2026-01-02T00:30:00%2B01:00", week, "2025-12-31", "2026-01-01", ""},
		{"&from=2025-10-03", 365 * 24 * time.Hour, "2025-10-03", "2026-01-02", ""}, // 92 days
		{"&from=2025-10-02", 365 * 24 * time.Hour, "", "", "span at most 92 UTC days, none before 2025-01-03: the history keeps 8760 hours"},
		{"&to=9999-12-31&from=2026-01-01", week, "", "", "92 UTC days"},
		{"&from=2025-12-26", week, "", "", none + "2025-12-27: the history keeps 168 hours"}, // a part of this day is no longer kept
		{"&to=2025-12-27", week, "", "", none + "2025-12-27"},
		{"&from=2025-12-20&to=2025-12-21", week, "", "", none + "2025-12-27"},
		{"&from=2026-01-01", 27 * time.Hour, "", "", none + "2026-01-02: the history keeps 27 hours"},
		{"&from=2026-01-03", week, "", "", "from must not be after today"},
	} {
		q, err := readUsageQuery("by=owner" + c.query)
		if err != nil {
			t.Fatalf("%s: %v", c.query, err)
		}
		first, last, err := q.days(thatDay, c.keep, "history")
		if c.refused != "" {
			if err == nil || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%s: %v, want it to say %q", c.query, err, c.refused)
			}
			continue
		}
		if err != nil || !first.Equal(first.Truncate(24*time.Hour)) || first.Format(time.DateOnly) != c.first || last.Format(time.DateOnly) != c.last {
			t.Errorf("%s: %s to %s, %v; want %s to %s", c.query, first, last, err, c.first, c.last)
		}
	}
}
