package refill

import (
	"log/slog"
	"testing"
	"time"

	"poold/internal/pool"
	"poold/internal/refill/policy"
	"poold/internal/testkit"
)

// If a target fails and recovers several times, each start and each end is logged once.
func TestFailuresAreLoggedOnce(t *testing.T) {
	var log testkit.Log
	s := &status{now: Status{State: OK}}
	decided := func(a pool.Attempts) {
		for range 3 {
			s.decided(policy.Decision{Order: 1}, pool.Stock{Attempts: a}, time.Now(), log.Logger())
		}
	}
	for round := 1; round <= 2; round++ {
		decided(pool.Attempts{Failed: 8, Bounded: time.Minute, Reason: "UNSOLVABLE"})
		if n := s.snapshot(); n.State != Starved || !n.Failing {
			t.Errorf("%+v", n)
		}
		decided(pool.Attempts{})
		decided(pool.Attempts{Refused: 1, Hopeless: true, Bounded: time.Minute, Next: time.Minute, Reason: "WRONG_SITEKEY"})
		if n := s.snapshot(); n.State != Refused || !n.Failing {
			t.Errorf("%+v", n)
		}
		decided(pool.Attempts{})
		if n := s.snapshot(); n.State != OK || n.Failing || !n.Until.IsZero() {
			t.Errorf("%+v", n)
		}
		for message, want := range map[string]int{"level=WARN": round, "level=ERROR": round, "level=INFO": 2 * round} {
			if n := log.Count(message); n != want {
				t.Errorf("round %d: %d messages of %s, want %d\n%s", round, n, message, want, &log)
			}
		}
	}
}

// Status.Until of a refused target is the time of the next order. After further looks, Status.Until
// is unchanged unless the time of the next order has changed.
func TestRefusedTargetsNameTheNextTry(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 300e6, time.UTC)
	s := &status{now: Status{State: OK}}
	for _, x := range []struct {
		after, next, until time.Duration
	}{
		{0, time.Minute, time.Minute},
		{20 * time.Second, 40 * time.Second, time.Minute},
		{40*time.Second + 600*time.Millisecond, 20 * time.Second, time.Minute}, // the stock rounds times
		{70 * time.Second, 2 * time.Minute, 190 * time.Second},
	} {
		a := pool.Attempts{Hopeless: true, Bounded: time.Second, Next: x.next, Reason: "WRONG_SITEKEY"}
		s.decided(policy.Decision{}, pool.Stock{Attempts: a}, at.Add(x.after), slog.New(slog.DiscardHandler))
		if n := s.snapshot(); !n.Until.Equal(at.Truncate(time.Second).Add(x.until)) || n.Reason != "WRONG_SITEKEY" {
			t.Errorf("after %v: %+v", x.after, n)
		}
	}
}
