package status

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"poold/internal/pool"
	"poold/internal/redisdb/redistest"
)

// The days of a target are what the stock tells of them.
func TestDaysOfATarget(t *testing.T) {
	store, err := pool.Open(pool.Options{
		Addresses: "redis://embedded", Dial: redistest.Embedded(t).Dial, Prefix: "days", Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	id := newTarget("login").ID
	for range 3 {
		if _, err := store.Tokens.Take(t.Context(), pool.Request{ID: id}); err == nil {
			t.Fatal("a token that nobody bought")
		}
	}
	stock, err := store.Tokens.Look(t.Context(), id, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	got := targetDays(&stock, now)
	if want := []TargetDay{{Date: now.UTC().Format(time.DateOnly), Counts: Counts{Requests: 3, Misses: 3}}}; !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := targetDays(&stock, now.AddDate(0, 0, 7)); got == nil || len(got) != 0 {
		t.Errorf("a week later: %#v", got)
	}
}

// The page sums the days of all targets.
func TestDayTotals(t *testing.T) {
	first := TargetDay{Date: "2026-01-02", Counts: Counts{Requests: 1, Hits: 2, Waited: 3, Misses: 4, Bought: 5, Solved: 6}, Failed: 7, Lost: 8, Expired: 9, Spent: 0.1}
	before := TargetDay{Date: "2026-01-01", Counts: Counts{Bought: 1}, Spent: 0.2}
	d := Document{Targets: []Target{{Days: []TargetDay{first, before}}, {Days: []TargetDay{}}, {Days: []TargetDay{{Date: "2026-01-01", Counts: Counts{Bought: 2}, Spent: 0.1}}}}}
	before.Bought, before.Spent = 3, 0.3
	if got := d.DayTotals(); !slices.Equal(got, []TargetDay{first, before}) {
		t.Errorf("%+v", got)
	}
}
