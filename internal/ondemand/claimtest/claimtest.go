// Package claimtest is the conformance suite of both claim stores, redisclaims and pgclaims. Only
// tests import it.
//
// The test RandomCallsMatchTheModel makes random calls and compares the results of a store with the
// results of a model. The other tests cover what the model lacks: concurrency, real time, values of
// any bytes, notifications and the deletion of ended claims.
//
// Each test opens a store with its own time limits. Tests that depend on time measure the elapsed
// time, so they take longer on a busy machine but still pass. In a synctest bubble they take no real
// time.
package claimtest

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/ondemand/dedup"
)

// Claims is a claim store as one replica uses it; redisclaims.Claims documents the methods.
type Claims interface {
	Enter(ctx context.Context, e dedup.ClaimEntry) (dedup.Claim, error)
	Hold(ctx context.Context, key captcha.ID, fence int64, identity captcha.ID) (mine, wanted bool, err error)
	Release(ctx context.Context, key captcha.ID, fence int64, identity captcha.ID) error
	End(ctx context.Context, key captcha.ID, fence int64, e dedup.ClaimEnd) (ok bool, err error)
	Count(ctx context.Context, requests map[dedup.SavingsSource]int) error
	Days(ctx context.Context) ([]dedup.SavingsDay, error)
}

// Backend is the claim store of one test.
type Backend struct {
	Replicas []Claims // three or more replicas over the same data
	// Exact means that time passes only while a test sleeps, as in a bubble.
	Exact bool
	// Woken reports whether the store has woken a replica with a key since the store was opened.
	Woken func(replica int, key captcha.ID) bool
	// Left returns the number of keys or rows of claims in the store. It does not count savings.
	Left func(t *testing.T) int
}

// Open opens a backend with the given time limits. The backend is closed when the test ends.
type Open func(t *testing.T, times dedup.ClaimTimes) Backend

// Suite lists the tests. Each test may run in a synctest bubble.
var Suite = map[string]func(*testing.T, Open){
	"OneOfManyHolds":            testOneOfManyHolds,
	"TakeoverAfterTheLease":     testTakeoverAfterTheLease,
	"OneOfManyTakesOver":        testOneOfManyTakesOver,
	"ASolveHasALimit":           testASolveHasALimit,
	"WantedWhileReplicasEnter":  testWantedWhileReplicasEnter,
	"ATokenIsShared":            testATokenIsShared,
	"ATokenIsSharedForItsTime":  testATokenIsSharedForItsTime,
	"AnErrorIsForgotten":        testAnErrorIsForgotten,
	"AllReplicasAreWoken":       testAllReplicasAreWoken,
	"NothingIsLeft":             testNothingIsLeft,
	"RequestsAreCountedExactly": testRequestsAreCountedExactly,
	"DaysBeginWithToday":        testDaysBeginWithToday,
	"RandomCallsMatchTheModel":  testRandomCallsMatchTheModel,
}

// Test runs the suite.
func Test(t *testing.T, open Open) {
	for name, test := range Suite {
		t.Run(name, func(t *testing.T) { test(t, open) })
	}
}

// longTimes are time limits that outlast a test even on a busy machine. Any two of these limits
// differ by more than the largest clock step that a store tolerates. A test therefore notices a store
// that uses the wrong limit.
var longTimes = dedup.ClaimTimes{
	Lease: 55 * time.Second, Wanted: 25 * time.Second, Longest: 3 * time.Minute, Solved: 70 * time.Second, Failed: 40 * time.Second,
}

// longTimesWith returns a copy of longTimes that the function change has modified.
func longTimesWith(change func(*dedup.ClaimTimes)) dedup.ClaimTimes {
	times := longTimes
	change(&times)
	return times
}

// newKey returns a random key or identity.
func newKey() captcha.ID {
	return captcha.Identity{Type: captcha.Turnstile, Sitekey: rand.Text()}.ID()
}

// enter calls Enter. The argument solve is "" for a new caller.
func enter(t *testing.T, c Claims, key captcha.ID, solve string) dedup.Claim {
	t.Helper()
	got, err := c.Enter(t.Context(), entry(key, solve, 1))
	if err != nil {
		t.Fatalf("entering: %v", err)
	}
	return got
}

// entry returns an entry for a key, with the identity identityOf(key).
func entry(key captcha.ID, solve string, callers int) dedup.ClaimEntry {
	return dedup.ClaimEntry{
		Key: key, Solve: solve, Identity: identityOf(key), Sitekey: "sitekey", Pageurl: "https://example.com", Callers: callers,
	}
}

func identityOf(key captcha.ID) captcha.ID {
	return captcha.Identity{Type: captcha.HCaptcha, Sitekey: string(key)}.ID()
}

func makeHolder(t *testing.T, c Claims, key captcha.ID) dedup.Claim {
	t.Helper()
	got := enter(t, c, key, "")
	if got.State != dedup.ClaimHeld || got.Solve == "" || got.Fence <= 0 {
		t.Fatalf("a free key: %+v", got)
	}
	return got
}

func checkClaim(t *testing.T, what string, got dedup.Claim, state dedup.ClaimState, solve string) {
	t.Helper()
	if got.State != state || got.Solve != solve {
		t.Fatalf("%s: %+v; want %s of %q", what, got, state, solve)
	}
}

// hold calls Hold and fails the test unless the result `mine` equals the argument `want`. It
// returns the result `wanted`.
func hold(t *testing.T, c Claims, key captcha.ID, fence int64, want bool) (wanted bool) {
	t.Helper()
	mine, wanted, err := c.Hold(t.Context(), key, fence, identityOf(key))
	if err != nil || mine != want {
		t.Fatalf("holding = %v, %v; want %v", mine, err, want)
	}
	return wanted
}

func release(t *testing.T, c Claims, key captcha.ID, fence int64, identity captcha.ID) {
	t.Helper()
	if err := c.Release(t.Context(), key, fence, identity); err != nil {
		t.Fatalf("letting go: %v", err)
	}
}

// end calls End and fails the test unless the result `ok` equals the argument `want`.
func end(t *testing.T, c Claims, key captcha.ID, fence int64, e dedup.ClaimEnd, want bool) {
	t.Helper()
	if ok, err := c.End(t.Context(), key, fence, e); err != nil || ok != want {
		t.Fatalf("ending by %+v = %v, %v; want %v", e, ok, err, want)
	}
}

// token returns the end of a solve that brought a token. The token may be shared for the given
// duration.
func token(value string, lasts time.Duration) dedup.ClaimEnd {
	return dedup.ClaimEnd{Value: []byte(value), Lasts: lasts}
}

// failure returns the end of a solve that brought no token.
func failure(value string) dedup.ClaimEnd { return dedup.ClaimEnd{Value: []byte(value), Failed: true} }

// rounding is the tolerance for time limits that end too early, because a store may round times to
// milliseconds.
const rounding = 2 * time.Millisecond

// pollUntil calls condition until it returns true. The time from `began` until then must be at
// least `shortest` and at most `shortest` plus 10 s, or the test fails.
func pollUntil(t *testing.T, what string, began time.Time, shortest time.Duration, condition func() bool) {
	t.Helper()
	for !condition() {
		if time.Since(began) > shortest+10*time.Second {
			t.Fatalf("%s: not within %v", what, time.Since(began))
		}
		time.Sleep(5 * time.Millisecond)
	}
	if took := time.Since(began); took < shortest-rounding {
		t.Fatalf("%s: after %v already, want %v", what, took, shortest)
	}
}
