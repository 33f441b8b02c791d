package pool

import (
	"strconv"
	"testing"
	"time"
)

// shift moves the times in a sorted set into the past, as if time had passed.
func shift(t *testing.T, s *replica, key string, by time.Duration) {
	t.Helper()
	entries, err := s.db.Slow.ZRangeWithScores(t.Context(), key, 0, -1).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		entry.Score -= float64(by.Milliseconds())
		must(t, s.db.Slow.ZAdd(t.Context(), key, entry).Err())
	}
}

func testBudgetsSlide(t *testing.T, o Options) {
	s, id := open(t, o), identity("budget")
	next := 0
	order := Order{Depth: 1000, TTL: time.Hour, PerHour: 3, PerDay: 5}
	put := func() Placing {
		t.Helper()
		next++
		order.Ref = Ref{id, "o" + strconv.Itoa(next)}
		got, err := s.Place(t.Context(), order)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	about := func(got Placing, want time.Duration) {
		t.Helper()
		if got.Placed || got.BudgetWait > want || got.BudgetWait < want-10*time.Second {
			t.Errorf("%+v, want a wait of %v", got, want)
		}
	}
	key := s.keys(id).spend
	for range 3 {
		if got := put(); !got.Placed {
			t.Fatalf("within the budget: %+v", got)
		}
	}
	// A retry of the same order is not counted again.
	order.Ref = Ref{id, "o3"}
	placeOrder(t, s, order)
	about(put(), time.Hour)
	// An order that was not bought leaves the budget. A bought order that failed stays in it.
	expect(t, Ended)(s.Fail(t.Context(), Failure{Ref: Ref{id, "o3"}}))
	expect(t, Ended)(s.Fail(t.Context(), Failure{Ref: Ref{id, "o2"}, Bought: true}))
	if got := put(); !got.Placed {
		t.Fatalf("after a refund: %+v", got)
	}
	about(put(), time.Hour)
	shift(t, s, key, 40*time.Minute)
	about(put(), 20*time.Minute)
	shift(t, s, key, 21*time.Minute)
	if got := look(t, s, id); got.HourUsed != 0 || got.DayUsed != 3 {
		t.Errorf("used: %d, %d", got.HourUsed, got.DayUsed)
	}
	// The hourly budget has room again, and the daily budget has room for two more orders.
	for range 2 {
		if got := put(); !got.Placed {
			t.Fatalf("in the next hour: %+v", got)
		}
	}
	about(put(), 24*time.Hour-61*time.Minute)
	// After the limit is lowered, more than one order must leave the window before the next order.
	order.PerDay = 3
	about(put(), 24*time.Hour-61*time.Minute)
	order.PerDay = 2
	about(put(), 24*time.Hour)
	// The value 0 sets no limit.
	order.PerHour, order.PerDay = 0, 0
	if got := put(); !got.Placed {
		t.Fatalf("without a budget: %+v", got)
	}
}

// The guests' budget has an hourly and a daily limit. The guests' budget is independent of the
// overall budget, also for refunds.
func testSharedBudgetsHaveCaps(t *testing.T, o Options) {
	s := open(t, o)
	book := func(order string) time.Duration {
		t.Helper()
		wait, err := s.Book(t.Context(), OfGuests, Ref{identity(order), order}, Caps{PerHour: 2, PerDay: 3}, 0)
		if err != nil {
			t.Fatal(err)
		}
		return wait
	}
	used := func(of Budget, wantHour, wantDay int) {
		t.Helper()
		if hour, day, err := s.Booked(t.Context(), of); err != nil || hour != wantHour || day != wantDay {
			t.Errorf("%d and %d of %s used, %v; want %d and %d", hour, day, of, err, wantHour, wantDay)
		}
	}
	if book("one") != 0 || book("two") != 0 || book("two") != 0 {
		t.Fatal("within the budget")
	}
	if wait := book("three"); wait < 59*time.Minute || wait > time.Hour {
		t.Errorf("beyond the hour's: %v", wait)
	}
	for _, order := range []string{"two", "alone"} {
		expect(t, time.Duration(0))(s.Book(t.Context(), Overall, Ref{identity(order), order}, Caps{PerDay: 2}, 0))
	}
	used(Overall, 2, 2)
	must(t, s.Refund(t.Context(), Overall, Ref{identity("two"), "two"}))
	must(t, s.Refund(t.Context(), Overall, Ref{identity("none"), "none"})) // no-op
	used(Overall, 1, 1)
	used(OfGuests, 2, 2) // a refund changes only one budget
	shift(t, s, s.budgetKey(OfGuests), 2*time.Hour)
	if book("three") != 0 {
		t.Error("in another hour")
	}
	used(OfGuests, 1, 3)
	used(Overall, 1, 1)
	if wait := book("four"); wait < 22*time.Hour-time.Minute || wait > 22*time.Hour {
		t.Errorf("beyond the day's: %v", wait)
	}
	if err := s.Refund(t.Context(), OfGuests, Ref{identity("three"), "three"}); err != nil {
		t.Error(err)
	}
	if book("four") != 0 {
		t.Error("after a refund")
	}
}
