package claimtest

import (
	"maps"
	"sync"
	"testing"
	"time"

	"poold/internal/captcha"
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

// Requests that share a token are counted separately: those that arrived during the solve, and
// those that arrived after its end. A request that gets no token is not counted. An entry whose
// field Callers is 0 changes no count.
func testRequestsCountByArrival(t *testing.T, open Open) {
	b := open(t, longTimes)
	key, other := newKey(), newKey()
	solved, failed := makeHolder(t, b.Replicas[0], key), makeHolder(t, b.Replicas[0], other)
	counts := func(what string, key captcha.ID, solve string, callers int, state dedup.ClaimState, want map[dedup.SavingsSource]int64) {
		t.Helper()
		for i, c := range b.Replicas {
			before := saved(t, c)
			got, err := c.Enter(t.Context(), entry(key, solve, callers))
			if err != nil || got.State != state {
				t.Fatalf("%s, replica %d: %+v, %v", what, i, got, err)
			}
			counted := saved(t, c)
			for source, n := range before {
				if counted[source] -= n; counted[source] == 0 {
					delete(counted, source)
				}
			}
			if !maps.Equal(counted, want) {
				t.Errorf("%s, replica %d: counted %v, want %v", what, i, counted, want)
			}
		}
	}
	during := func(n int64) map[dedup.SavingsSource]int64 {
		return map[dedup.SavingsSource]int64{dedup.SavedWaiting: n}
	}
	after := func(n int64) map[dedup.SavingsSource]int64 { return map[dedup.SavingsSource]int64{dedup.SavedAfter: n} }
	counts("a new caller, during the solve", key, "", 2, dedup.ClaimSolving, nil)
	counts("a waiting caller, during the solve", key, solved.Solve, 2, dedup.ClaimSolving, nil)
	end(t, b.Replicas[0], key, solved.Fence, token("t", time.Minute), true)
	end(t, b.Replicas[0], other, failed.Fence, failure("why"), true)
	counts("waiting callers", key, solved.Solve, 3, dedup.ClaimShared, during(3))
	counts("new callers", key, "", 2, dedup.ClaimShared, after(2))
	counts("a waiting caller, after new ones", key, solved.Solve, 1, dedup.ClaimShared, during(1))
	counts("no new caller", key, "", 0, dedup.ClaimShared, nil)
	counts("no waiting caller", key, solved.Solve, 0, dedup.ClaimShared, nil)
	counts("callers of another solve", key, failed.Solve, 2, dedup.ClaimError, nil)
	counts("callers of a failed solve", other, failed.Solve, 2, dedup.ClaimError, nil)
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
