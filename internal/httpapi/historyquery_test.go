package httpapi

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/labstack/echo/v4"

	"poold/internal/history"
	"poold/internal/testkit"
)

// contextOf returns the context of a request with a query.
func contextOf(query string) *Context {
	return &Context{Context: echo.New().NewContext(httptest.NewRequest("GET", "/?"+query, nil), httptest.NewRecorder())}
}

// TestHangingStoreIsGivenUpInTime: a query to a hanging store ends before the time limit of the
// response.
func TestHangingStoreIsGivenUpInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		err := readHistory(contextOf(""), func(ctx context.Context) error {
			<-ctx.Done()
			return errors.New("the driver's own words")
		})
		if took := time.Since(began); !errors.Is(err, history.ErrDown) || took >= WriteLimit || took < time.Second {
			t.Errorf("after %v: %v", took, err)
		}
		other := errors.New("at once")
		if err := readHistory(contextOf(""), func(context.Context) error { return other }); !errors.Is(err, other) ||
			errors.Is(err, history.ErrDown) {
			t.Error(err)
		}
	})
}

// FuzzCursor: a cursor is accepted only if it comes from the API.
func FuzzCursor(f *testing.F) {
	const order, handout = "ORDERAAAAAAAAAAAAAAAAAAAAA", "1767323045678-0"
	good := encodeCursor(history.Position{At: day, ID: order})
	for _, seed := range []string{good, good + "=", strings.ToLower(good), "", "MS4u",
		"LTEuT1JERVIwMDEuMDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY", "MDAxLk8uMDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY",
		encodeCursor(history.Position{At: time.UnixMilli(1 << 60), ID: order}),
		encodeCursor(history.Position{At: day, ID: handout}), encodeCursor(history.Position{At: day, ID: "A"})} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, ok := decodeCursor(text)
		if !ok {
			return
		}
		if !history.IsOrder(p.ID) && !handoutID.MatchString(p.ID) || p.At.Year() < 1970 || p.At.Year() > 9999 ||
			p.At.Location() != time.UTC || encodeCursor(p) != text {
			t.Errorf("%q is %+v", text, p)
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
		{"", 24 * time.Hour, "2026-01-02", "2026-01-02", ""}, // no earlier day is complete
		{"", 28 * time.Hour, "2026-01-01", "2026-01-02", ""},
		{"&from=2025-12-27", week, "2025-12-27", "2026-01-02", ""},
		{"&from=2026-01-02T04:00:00Z", week, "2026-01-02", "2026-01-02", ""}, // today, although the time is in the future
		{"&to=2026-01-02", week, "2025-12-27", "2026-01-01", ""},             // the default would begin on 2025-12-26
		{"&to=2026-01-02T00:00:00.001Z", week, "2025-12-27", "2026-01-02", ""},
		{"&from=2026-01-01T23:00:00-02:00", week, "2026-01-02", "2026-01-02", ""},
		{"&from=2025-12-31&to=2026-01-02T00:30:00%2B01:00", week, "2025-12-31", "2026-01-01", ""},
		{"&from=2025-10-03", 365 * 24 * time.Hour, "2025-10-03", "2026-01-02", ""}, // 92 days
		{"&from=2025-10-02", 365 * 24 * time.Hour, "", "",
			"span 1 to 92 UTC days, none before 2025-01-03, and from must not be after today: the history keeps 8760 hours"},
		// a part of this day is no longer kept
		{"&from=2025-12-26", week, "", "", none +
			"2025-12-27, and from must not be after today: the history keeps 168 hours"},
		{"&to=2025-12-27", week, "", "", none + "2025-12-27"},
		{"&from=2026-01-03", week, "", "", "from must not be after today"},
	} {
		var from, to time.Time
		query := contextOf(strings.TrimPrefix(c.query, "&"))
		testkit.NoError(t, query.ReadQuery(moment("from", &from), moment("to", &to)))
		first, last, err := usageDays(from, to, day, c.keep, "history")
		if c.refused != "" {
			if err == nil || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%s: %v, want it to say %q", c.query, err, c.refused)
			}
			continue
		}
		if err != nil || !first.Equal(first.Truncate(24*time.Hour)) || first.Format(time.DateOnly) != c.first ||
			last.Format(time.DateOnly) != c.last {
			t.Errorf("%s: %s to %s, %v; want %s to %s", c.query, first, last, err, c.first, c.last)
		}
	}
}
