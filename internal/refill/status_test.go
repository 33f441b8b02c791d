package refill

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/refill/policy"
	"poold/internal/targets"
	"poold/internal/testkit"
)

// In the status of a new target, the number of wanted tokens is the depth or, for an adaptive
// target, `min`.
func TestStatusOfANewTarget(t *testing.T) {
	fixed, adaptive, paused := target("x", 5), learning("x", 5), target("x", 5)
	adaptive.Min, paused.Paused = 2, true
	for want, x := range map[int]targets.Target{5: fixed, 2: adaptive, 0: paused} {
		var s status
		s.begin(x, time.Minute, 7)
		if n := s.snapshot(); n.Want != want || (n.State == OK) == x.Paused || n.Lead != time.Minute || n.Credit != 7 {
			t.Errorf("%+v, want %d", n, want)
		}
	}
}

// The status forgets problems that are over. The wait for a slot begins anew after an order, and
// after a time in which no order was wanted. The reason why the provider was busy is dropped after
// a solve.
func TestStatusForgetsTroubleThatIsOver(t *testing.T) {
	at := time.Now()
	quiet := slog.New(slog.DiscardHandler)
	wants := policy.Decision{Order: 1}
	full := errors.New("full")
	failsForALackOfSlots := func(s *status) {
		s.placed(at)
		s.busy(full, at)
		s.set(Starved, "full")
	}
	for name, x := range map[string]struct {
		between func(s *status)
		state   string // state at the next decision, an hour later
		waits   bool   // whether the target has waited for a slot since the start
	}{
		"nothing":            {func(*status) {}, Starved, true},
		"an order":           {func(s *status) { s.placed(at) }, OK, false},
		"no order is wanted": {func(s *status) { s.decided(policy.Decision{}, pool.Stock{}, nil, at, quiet) }, OK, false},
		"a busy provider":    {failsForALackOfSlots, Starved, false},
		"a busy provider, an order of another replica": {func(s *status) {
			failsForALackOfSlots(s)
			s.ended(purchase.Result{Outcome: purchase.Elsewhere}, at)
		}, Starved, false},
		"a busy provider, a solve": {func(s *status) {
			failsForALackOfSlots(s)
			s.ended(purchase.Result{Outcome: purchase.Solved}, at)
		}, OK, false},
	} {
		s := &status{now: Status{State: OK}}
		s.wantsSlot(at)
		x.between(s)
		later := at.Add(time.Hour)
		s.decided(wants, pool.Stock{}, nil, later, quiet)
		if n := s.snapshot(); n.State != x.state || (n.Reason == "") != (x.state == OK) {
			t.Errorf("%s: %+v, want %s", name, n, x.state)
		}
		if since := s.wantsSlot(later); since.Equal(at) != x.waits {
			t.Errorf("%s: waits since %v after the begin", name, since.Sub(at))
		}
	}
}

// If a target fails and recovers several times, each start and each end is logged once.
func TestFailuresAreLoggedOnce(t *testing.T) {
	var log testkit.Log
	s := &status{now: Status{State: OK}}
	decided := func(a pool.Attempts) {
		for range 3 {
			s.decided(policy.Decision{Order: 1}, pool.Stock{Attempts: a}, nil, time.Now(), log.Logger())
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
		s.decided(policy.Decision{}, pool.Stock{Attempts: a}, nil, at.Add(x.after), slog.New(slog.DiscardHandler))
		if n := s.snapshot(); !n.Until.Equal(at.Truncate(time.Second).Add(x.until)) || n.Reason != "WRONG_SITEKEY" {
			t.Errorf("after %v: %+v", x.after, n)
		}
	}
}

// A replica shows the status from the watching replica. If that status is old, or the replica
// itself has another problem, the replica shows its own status. The shown status contains the
// failures of the replica whose last failure is more recent.
func TestShownStatus(t *testing.T) {
	now := time.Now()
	failed := func(before time.Duration) []Failure {
		return []Failure{{At: now.Add(-before), Reason: before.String()}}
	}
	own := func(state string) Status { return Status{State: state, Want: 1} }
	for name, x := range map[string]struct {
		own, remote Status
		age         time.Duration
		watched     bool
		want        int           // 1 = own status, 2 = status of the watching replica
		failed      time.Duration // age of the failure; 0 = no failure
	}{
		"watched here":            {own: own(OK), watched: true, want: 1},
		"watched elsewhere":       {own: own(OK), want: 2},
		"too old":                 {own: own(OK), age: sharedFor, want: 1},
		"a problem here":          {own: own(Starved), want: 1},
		"orders fail here":        {own: Status{State: Starved, Failing: true, Want: 1}, want: 2},
		"a failure here":          {own: Status{State: OK, Failures: failed(time.Hour)}, want: 2, failed: time.Hour},
		"a failure there":         {own: own(OK), remote: Status{Failures: failed(time.Hour)}, want: 2, failed: time.Hour},
		"a later failure here":    {own: Status{State: OK, Failures: failed(time.Minute)}, remote: Status{Failures: failed(time.Hour)}, want: 2, failed: time.Minute},
		"an earlier failure here": {own: Status{State: OK, Failures: failed(time.Hour)}, remote: Status{Failures: failed(time.Minute)}, want: 2, failed: time.Minute},
	} {
		w := new(worker)
		w.status.now = x.own
		w.watched.Store(x.watched)
		x.remote.Want = 2
		w.remote.Store(&sharedStatus{Status: x.remote, at: now.Add(-x.age)})
		got := w.visibleStatus()
		if got.Want != x.want {
			t.Errorf("%s: %+v", name, got)
		}
		if len(got.Failures) > 0 != (x.failed > 0) || x.failed > 0 && got.Failures[0].Reason != x.failed.String() {
			t.Errorf("%s: failures %+v, want those of %v before", name, got.Failures, x.failed)
		}
	}
}
