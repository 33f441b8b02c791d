package solve

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/claims"
	"poold/internal/pool"
	"poold/internal/testkit"
)

// A shared token is handed out only while it outlives the caller's margin, even if the store still
// shares it.
func TestAnExpiredTokenIsNotShared(t *testing.T) {
	const margin = 10 * time.Second
	for name, c := range map[string]struct{ left, ttl time.Duration }{
		"alive":             {time.Minute, time.Minute - margin},
		"within the margin": {margin / 2, 0},
		"expired":           {-time.Second, 0},
	} {
		token := pool.Token{Order: "o", Value: "v", Dies: time.Now().Add(c.left), TTL: c.left}
		stored := encodeEnd(token, time.Minute, nil)
		got := readEnd(claims.Claim{State: claims.Shared, Left: time.Minute - margin, Value: stored}, margin)
		var expired *pool.FailedError
		testkit.Equal(t, name+": it has expired", errors.As(got.err, &expired), c.ttl == 0)
		testkit.Equal(t, name+": TTL", got.token.TTL, c.ttl)
	}
}

// The claim store keeps the type, text and durations of each error of a solve.
func TestErrorsSurviveTheClaimStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const retry = 61*time.Minute + 23*time.Second + 456*time.Millisecond
		now := time.Now()
		for name, c := range map[string]struct{ err, want error }{
			"failed": {&pool.FailedError{Reason: "a"}, &pool.FailedError{Reason: "a"}},
			"refused": {&pool.FailedError{BadParameters: true, Reason: "b"},
				&pool.FailedError{BadParameters: true, Reason: "b"}},
			"wrapped": {fmt.Errorf("solving: %w", &pool.FailedError{BadParameters: true, Reason: "b"}),
				&pool.FailedError{BadParameters: true, Reason: "b"}},
			"outage": {&pool.FailedError{NotPlaced: "brake", Reason: "c", Until: now.Add(retry)},
				&pool.FailedError{NotPlaced: "brake", Reason: "c", Until: now.Add(retry)}},
			"rate":       {&pool.RateError{RetryAfter: retry}, &pool.RateError{RetryAfter: retry}},
			"full":       {&pool.EmptyError{Full: true}, &pool.EmptyError{Full: true}},
			"empty":      {&pool.EmptyError{}, &pool.EmptyError{}},
			"unexpected": {errors.New("e"), &pool.FailedError{Reason: "e"}},
		} {
			got := readEnd(claims.Claim{State: claims.Failed, Value: encodeEnd(pool.Token{}, 0, c.err)}, 0)
			if outage := (*pool.FailedError)(nil); errors.As(got.err, &outage) && !outage.Until.IsZero() {
				outage.Until = outage.Until.Local() // of the test's times
			}
			testkit.DeepEqual(t, name, got.err, c.want)
		}
	})
}

// A share has a limited number of callers.
func TestSharesAreLimited(t *testing.T) {
	s := New(Config{})
	for range MostWaiting {
		s.join("x")
	}
	var full *pool.EmptyError
	request := Request{Call: &pool.Call{}, Share: &Share{Key: "x"}}
	if got := s.share(t.Context(), request); !errors.As(got.err, &full) || !full.Full ||
		s.shares["x"].callers != MostWaiting {
		t.Errorf("one more: %v, %d callers", got.err, s.shares["x"].callers)
	}
	for range MostWaiting {
		s.leave("x", s.shares["x"])
	}
	testkit.Equal(t, "shares without callers", len(s.shares), 0)
}
