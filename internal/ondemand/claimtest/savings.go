package claimtest

import (
	"maps"
	"sync"
	"testing"
	"time"

	"poold/internal/ondemand/dedup"
)

// saved adds the days up.
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

// The requests that share a token are counted by the answer that has it, and no others.
func testSharedRequestsAreCounted(t *testing.T, open Open) {
	b := open(t, long)
	key := newKey()
	with := func(solve string, callers int) {
		t.Helper()
		if _, err := b.Replicas[1].Enter(t.Context(), entry(key, solve, callers)); err != nil {
			t.Fatal(err)
		}
	}
	want := map[dedup.SavingsSource]int64{}
	check := func(what string) {
		t.Helper()
		if got := saved(t, b.Replicas[2]); !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	first := begin(t, b.Replicas[0], key)
	with("", 5)
	with(first.Solve, 5)
	end(t, b.Replicas[0], key, first.Fence, failure("why"), true)
	with(first.Solve, 5)
	second := begin(t, b.Replicas[0], key)
	check("before there is a token")
	end(t, b.Replicas[0], key, second.Fence, token("t", time.Minute), true)
	with(second.Solve, 7)
	want[dedup.SavedWaiting] = 7
	check("who waited")
	with("", 3)
	want[dedup.SavedAfter] = 3
	check("who came later")
	with(first.Solve, 5)
	with("", 0)
	with(second.Solve, 0)
	check("nobody is served")
}

// No request is lost among many, and none is counted twice.
func testRequestsAreCountedExactly(t *testing.T, open Open) {
	b := open(t, long)
	key := newKey()
	first := begin(t, b.Replicas[0], key)
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

// Today stands in front, with six days behind it that had no requests.
func testDaysBeginWithToday(t *testing.T, open Open) {
	var today time.Time
	var days []dedup.SavingsDay
	for again := true; again; { // where midnight passed meanwhile
		b := open(t, long)
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
