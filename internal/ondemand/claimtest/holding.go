package claimtest

import (
	"sync"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/ondemand/dedup"
)

// enterConcurrently makes 50 concurrent calls of Enter, distributed over all replicas, and returns
// their results.
func enterConcurrently(t *testing.T, b Backend, key captcha.ID, solve string) []dedup.Claim {
	t.Helper()
	answers := make([]dedup.Claim, 50)
	var all sync.WaitGroup
	start := make(chan struct{})
	for i := range answers {
		all.Go(func() {
			<-start
			got, err := b.Replicas[i%len(b.Replicas)].Enter(t.Context(), entry(key, solve, 1))
			if err != nil {
				t.Errorf("entering: %v", err)
			}
			answers[i] = got
		})
	}
	close(start)
	all.Wait()
	return answers
}

// heldClaim returns the only claim in the state ClaimHeld, and checks that all other claims wait for
// its solve.
func heldClaim(t *testing.T, answers []dedup.Claim) dedup.Claim {
	t.Helper()
	var holder dedup.Claim
	n := 0
	for _, a := range answers {
		if a.State == dedup.ClaimHeld {
			holder = a
			n++
		}
	}
	if n != 1 {
		t.Fatalf("%d hold it, want 1", n)
	}
	for _, a := range answers {
		if a.Solve != holder.Solve || a.Identity != holder.Identity || a.State != dedup.ClaimHeld && a.State != dedup.ClaimSolving {
			t.Errorf("told %+v beside %+v", a, holder)
		}
	}
	return holder
}

// Exactly one of many concurrent callers becomes the holder.
func testOneOfManyHolds(t *testing.T, open Open) {
	b := open(t, longTimes)
	key := newKey()
	got := heldClaim(t, enterConcurrently(t, b, key, ""))
	if got.Identity != identityOf(key) || got.Fence <= 0 || got.Solve == "" || got.Value != nil {
		t.Errorf("held: %+v", got)
	}
	if got.Left <= longTimes.Longest/2 || got.Left > longTimes.Longest {
		t.Errorf("may go on for %v of %v", got.Left, longTimes.Longest)
	}
}

// When the lease expires, and not earlier, another replica becomes the holder. The new holder gets the
// name of the solve and the identity that the old holder recorded last.
func testTakeoverAfterTheLease(t *testing.T, open Open) {
	times := longTimesWith(func(c *dedup.ClaimTimes) { c.Lease = 300 * time.Millisecond })
	for _, waits := range []bool{true, false} {
		b := open(t, times)
		key, other := newKey(), newKey()
		first := makeHolder(t, b.Replicas[0], key)
		solve := ""
		if waits {
			solve = first.Solve
		}
		asked := time.Now()
		mine, _, err := b.Replicas[0].Hold(t.Context(), key, first.Fence, other)
		if err != nil || !mine {
			t.Fatal(mine, err)
		}
		var got dedup.Claim
		pollUntil(t, "taken over", asked, times.Lease, func() bool {
			got = enter(t, b.Replicas[1], key, solve)
			return got.State != dedup.ClaimSolving
		})
		checkClaim(t, "taken over", got, dedup.ClaimHeld, first.Solve)
		if got.Identity != other || got.Fence <= first.Fence || got.Left <= 0 || got.Left > times.Longest-times.Lease+rounding {
			t.Errorf("taken over: %+v from %+v", got, first)
		}
		hold(t, b.Replicas[0], key, first.Fence, false)
		hold(t, b.Replicas[1], key, got.Fence, true)
	}
}

// inTime repeats a test until one run takes less than the limit, because a run on a busy machine may
// take longer.
func inTime(t *testing.T, limit time.Duration, do func() (took time.Duration)) {
	t.Helper()
	for range 10 {
		if do() < limit {
			return
		}
	}
	t.Fatalf("never done within %v", limit)
}

// When the lease has expired, exactly one of many concurrent callers becomes the new holder.
func testOneOfManyTakesOver(t *testing.T, open Open) {
	times := longTimesWith(func(c *dedup.ClaimTimes) { c.Lease = time.Second })
	b := open(t, times)
	inTime(t, times.Lease, func() time.Duration {
		key := newKey()
		first := makeHolder(t, b.Replicas[0], key)
		time.Sleep(times.Lease + rounding)
		began := time.Now()
		answers := enterConcurrently(t, b, key, first.Solve)
		took := time.Since(began)
		if took < times.Lease {
			if got := heldClaim(t, answers); got.Solve != first.Solve || got.Identity != first.Identity || got.Fence <= first.Fence {
				t.Errorf("taken over: %+v from %+v", got, first)
			}
		}
		return took
	})
}

// A solve ends after the time Longest, even if its lease is renewed.
func testASolveHasALimit(t *testing.T, open Open) {
	times := longTimesWith(func(c *dedup.ClaimTimes) { c.Longest = 500 * time.Millisecond })
	b := open(t, times)
	key, began := newKey(), time.Now()
	first := makeHolder(t, b.Replicas[0], key)
	pollUntil(t, "lost", began, times.Longest, func() bool {
		mine, _, err := b.Replicas[0].Hold(t.Context(), key, first.Fence, identityOf(key))
		return err == nil && !mine
	})
	end(t, b.Replicas[0], key, first.Fence, token("late", time.Minute), false)
	got := enter(t, b.Replicas[1], key, first.Solve)
	checkClaim(t, "who waited", got, dedup.ClaimError, first.Solve)
	if got.Value != nil {
		t.Errorf("told %q", got.Value)
	}
	next := enter(t, b.Replicas[1], key, "")
	if next.State != dedup.ClaimHeld || next.Solve == first.Solve || next.Fence <= first.Fence {
		t.Errorf("who comes new: %+v after %+v", next, first)
	}
	hold(t, b.Replicas[0], key, first.Fence, false)
}

// Hold reports that the claim is wanted if a replica called Enter within the time Wanted.
func testWantedWhileReplicasEnter(t *testing.T, open Open) {
	times := longTimesWith(func(c *dedup.ClaimTimes) { c.Wanted = 500 * time.Millisecond })
	b := open(t, times)
	for _, waits := range []bool{true, false} {
		key := newKey()
		got := makeHolder(t, b.Replicas[0], key)
		if hold(t, b.Replicas[0], key, got.Fence, true) {
			t.Error("wanted, and nobody asked")
		}
		solve := ""
		if waits {
			solve = got.Solve
		}
		asked := time.Now()
		checkClaim(t, "who asks", enter(t, b.Replicas[1], key, solve), dedup.ClaimSolving, got.Solve)
		wanted := hold(t, b.Replicas[0], key, got.Fence, true)
		if !wanted && time.Since(asked) < times.Wanted {
			t.Error("asked for, and not wanted")
		}
		pollUntil(t, "not wanted", asked, times.Wanted, func() bool { return !hold(t, b.Replicas[0], key, got.Fence, true) })
	}
}
