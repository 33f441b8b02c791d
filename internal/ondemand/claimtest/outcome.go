package claimtest

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/ondemand/dedup"
)

// Waiting callers and new callers get the token unchanged, even if it contains arbitrary bytes.
func testATokenIsShared(t *testing.T, open Open) {
	b := open(t, longTimes)
	for _, value := range [][]byte{[]byte("token"), {0, 255, '\n', '|', '\r', 0}, bytes.Repeat([]byte("long"), 10_000), {}} {
		key := newKey()
		first := makeHolder(t, b.Replicas[0], key)
		end(t, b.Replicas[0], key, first.Fence, dedup.ClaimEnd{Value: value, Lasts: time.Hour}, true)
		for i, c := range b.Replicas {
			for _, solve := range []string{first.Solve, ""} {
				got := enter(t, c, key, solve)
				checkClaim(t, "the token", got, dedup.ClaimShared, first.Solve)
				if got.Value == nil || !bytes.Equal(got.Value, value) || got.Left > longTimes.Solved || got.Left < longTimes.Solved/2 {
					t.Errorf("replica %d: %+v", i, got)
				}
			}
		}
		got := enter(t, b.Replicas[1], key, "another solve")
		checkClaim(t, "who waited for another one", got, dedup.ClaimError, "another solve")
		if got.Value != nil {
			t.Errorf("told %q", got.Value)
		}
	}
}

// A token is shared for the duration in ClaimEnd.Lasts, but at most for the time Solved.
func testATokenIsSharedForItsTime(t *testing.T, open Open) {
	times := longTimesWith(func(c *dedup.ClaimTimes) { c.Solved = time.Second })
	b := open(t, times)
	for lasts, shared := range map[time.Duration]time.Duration{
		400 * time.Millisecond: 400 * time.Millisecond,
		time.Hour:              time.Second,
		0:                      0,
		-time.Second:           0,
	} {
		key := newKey()
		first := makeHolder(t, b.Replicas[0], key)
		ended := time.Now()
		end(t, b.Replicas[0], key, first.Fence, token("t", lasts), true)
		got := enter(t, b.Replicas[2], key, first.Solve)
		if shared > 0 && time.Since(ended) < shared {
			checkClaim(t, "at once", got, dedup.ClaimShared, first.Solve)
		}
		pollUntil(t, "over for who waited", ended, shared, func() bool {
			got = enter(t, b.Replicas[1], key, first.Solve)
			return got.State != dedup.ClaimShared
		})
		checkClaim(t, "who comes late", got, dedup.ClaimError, first.Solve)
		if got.Value != nil {
			t.Errorf("told %q", got.Value)
		}
		if next := makeHolder(t, b.Replicas[2], key); next.Solve == first.Solve {
			t.Errorf("the solve that is over begins again: %+v", next)
		}
	}
}

// The store returns a failure for the time Failed. After that time it returns no failure.
func testAnErrorIsForgotten(t *testing.T, open Open) {
	times := longTimesWith(func(c *dedup.ClaimTimes) { c.Failed = 400 * time.Millisecond })
	b := open(t, times)
	key := newKey()
	first := makeHolder(t, b.Replicas[0], key)
	ended := time.Now()
	end(t, b.Replicas[0], key, first.Fence, failure("why"), true)
	pollUntil(t, "forgotten", ended, times.Failed, func() bool {
		got := enter(t, b.Replicas[1], key, first.Solve)
		checkClaim(t, "who waited", got, dedup.ClaimError, first.Solve)
		return got.Value == nil
	})
}

// End and Release wake every replica, including the replica that makes the call.
func testAllReplicasAreWoken(t *testing.T, open Open) {
	b := open(t, longTimes)
	for _, wake := range []func(key captcha.ID, fence int64){
		func(key captcha.ID, fence int64) { end(t, b.Replicas[0], key, fence, token("t", time.Minute), true) },
		func(key captcha.ID, fence int64) { end(t, b.Replicas[0], key, fence, failure("why"), true) },
		func(key captcha.ID, fence int64) { release(t, b.Replicas[0], key, fence, identityOf(key)) },
	} {
		woken := make([]bool, len(b.Replicas))
		// At the time of the first call a replica may not yet listen for notifications.
		for began := time.Now(); slices.Contains(woken, false); time.Sleep(5 * time.Millisecond) {
			key := newKey()
			got := makeHolder(t, b.Replicas[0], key)
			wake(key, got.Fence)
			for since := time.Now(); time.Since(since) < 500*time.Millisecond && slices.Contains(woken, false); time.Sleep(time.Millisecond) {
				for i := range woken {
					woken[i] = woken[i] || b.Woken(i, key)
				}
			}
			if time.Since(began) > 10*time.Second {
				t.Fatalf("woken: %v", woken)
			}
		}
	}
	if b.Woken(0, newKey()) {
		t.Error("woken over a key that nothing happened to")
	}
}

// The store deletes all keys or rows of ended claims.
func testNothingIsLeft(t *testing.T, open Open) {
	b := open(t, dedup.ClaimTimes{
		Lease: 100 * time.Millisecond, Wanted: 100 * time.Millisecond, Longest: 500 * time.Millisecond,
		Solved: 200 * time.Millisecond, Failed: 200 * time.Millisecond,
	})
	for i := range 20 {
		key := captcha.ID(newKey())
		got := makeHolder(t, b.Replicas[i%len(b.Replicas)], key)
		enter(t, b.Replicas[0], key, got.Solve)
		switch i % 4 {
		case 0: // the holder has died
		case 1:
			_, _ = b.Replicas[0].End(t.Context(), key, got.Fence, token("t", time.Minute))
		case 2:
			_, _ = b.Replicas[0].End(t.Context(), key, got.Fence, failure("why"))
		case 3:
			_, _ = b.Replicas[0].End(t.Context(), key, got.Fence, failure("why"))
			enter(t, b.Replicas[1], key, "") // begins a new solve, whose holder has died
		}
	}
	if b.Left(t) == 0 {
		t.Error("Left sees nothing of claims that live")
	}
	pollUntil(t, "nothing left", time.Now(), 0, func() bool { return b.Left(t) == 0 })
}
