package claimtest

import (
	"maps"
	"sync"
	"testing"
	"time"

	"poold/internal/ondemand/dedup"
)

// saved returns the sum of the savings of all days.
func saved(t *testing.T, c Claims) map[dedup.SavingsSource]int64 {
	t.Helper()
	days, err := c.Days(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sum := map[dedup.SavingsSource]int64{}
	for _, day := range days {
		for source, n := range day.BySource {
			sum[source] += n
		}
	}
	return sum
}

// Concurrent requests are counted exactly.
func testRequestsAreCountedExactly(t *testing.T, open Open) {
	b := open(t, longTimes)
	key := newKey()
	first := makeHolder(t, b.Replicas[0], key)
	end(t, b.Replicas[0], key, first.Fence, token("t", time.Minute), true)
	const workers, each = 9, 6
	var all sync.WaitGroup
	for i := range workers {
		c := b.Replicas[i%len(b.Replicas)]
		all.Go(func() {
			for n := range each {
				solve := ""
				if n%2 == 0 {
					solve = first.Solve
				}
				if got, err := c.Enter(t.Context(), entry(key, solve, n+1)); err != nil || got.State != dedup.ClaimShared {
					t.Errorf("sharing: %+v, %v", got, err)
				}
				if err := c.Count(t.Context(), map[dedup.SavingsSource]int{dedup.SavedPool: 1, dedup.SavedSolve: 2, dedup.SavedReplay: 0}); err != nil {
					t.Errorf("counting: %v", err)
				}
			}
		})
	}
	all.Wait()
	want := map[dedup.SavingsSource]int64{
		dedup.SavedPool: workers * each, dedup.SavedSolve: 2 * workers * each,
		dedup.SavedWaiting: workers * (1 + 3 + 5), dedup.SavedAfter: workers * (2 + 4 + 6),
	}
	for i, c := range b.Replicas {
		if got := saved(t, c); !maps.Equal(got, want) {
			t.Errorf("replica %d: %v, want %v", i, got, want)
		}
	}
}

// Days returns today first and then the six days before today, which have no requests in this test.
func testDaysBeginWithToday(t *testing.T, open Open) {
	var today time.Time
	var days []dedup.SavingsDay
	for again := true; again; { // repeat if midnight passed during the test
		b := open(t, longTimes)
		today = time.Now().UTC()
		for _, requests := range []map[dedup.SavingsSource]int{nil, {dedup.SavedReplay: 4}} {
			if err := b.Replicas[0].Count(t.Context(), requests); err != nil {
				t.Fatal(err)
			}
		}
		var err error
		if days, err = b.Replicas[1].Days(t.Context()); err != nil || len(days) != 7 {
			t.Fatalf("%+v, %v", days, err)
		}
		again = time.Now().UTC().Day() != today.Day()
	}
	for i, day := range days {
		want := map[dedup.SavingsSource]int64{}
		if i == 0 {
			want[dedup.SavedReplay] = 4
		}
		if day.Date != today.AddDate(0, 0, -i).Format(time.DateOnly) || day.BySource == nil || !maps.Equal(day.BySource, want) {
			t.Errorf("day %d: %+v, want %v", i, day, want)
		}
	}
}
