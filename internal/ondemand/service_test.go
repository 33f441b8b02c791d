package ondemand

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
	"poold/internal/ondemand/dedup"
	"poold/internal/pool"
	"poold/internal/redisdb"
)

// joining is a stock in which each caller joins the wait of an equal request.
type joining struct{ Tokens }

func (joining) Take(context.Context, pool.Request) (pool.Token, error) {
	return pool.Token{Value: "v", Source: pool.FromReplay, Joined: true}, nil
}

// retiring is a list of guests that records the calls of Retire.
type retiring struct {
	Guests
	asked chan bool // gets true if the identity "target" has a target and the identity "guest" has none
}

func (r retiring) Use(context.Context, captcha.ID, pool.GuestUse) error { return nil }

func (r retiring) Retire(_ context.Context, hasTarget func(captcha.ID) bool) (int, error) {
	select {
	case r.asked <- hasTarget("target") && !hasTarget("guest"):
	default:
	}
	return 0, errors.New("no connection")
}

// If a caller of a target joins the wait of an equal request, it is not counted as a replay for a
// guest.
func TestCallersOfTargetsAreNoGuests(t *testing.T) {
	s := New(Parts{Tokens: joining{}, Guests: retiring{}, Log: slog.New(slog.DiscardHandler)})
	for _, c := range []struct {
		r       Request
		replays int
	}{{Request{}, 0}, {request("x"), 1}} {
		if _, err := s.Solve(t.Context(), c.r); err != nil {
			t.Fatal(err)
		}
		if s.counter.replays != c.replays || s.counter.refused != 0 {
			t.Errorf("guest %v: %d replays, %d refused", c.r.Guest != nil, s.counter.replays, s.counter.refused)
		}
	}
	if got := s.counter.requests[dedup.SavedReplay]; got != 2 {
		t.Errorf("%d replays in the savings", got)
	}
}

// Guests are retired repeatedly, also after an error. Identities that have a target are not retired.
func TestTargetsAreNotRetired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := retiring{asked: make(chan bool)}
		s := New(Parts{Guests: r, HasTarget: func(id captcha.ID) bool { return id == "target" }, Log: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go s.keepRetiring(ctx)
		for range 3 {
			began := time.Now()
			if right := <-r.asked; !right || time.Since(began) < retireEvery || time.Since(began) > 2*retireEvery {
				t.Errorf("after %v: %v", time.Since(began), right)
			}
		}
	})
}

// A request without a token counts as missed if a token could have come, and as refused if not.
func TestRequestsWithoutATokenAreMissedOrRefused(t *testing.T) {
	for _, c := range []struct {
		err  error
		want dedup.SavingsSource
	}{
		{&pool.EmptyError{}, dedup.SavedMissed},
		{context.Canceled, dedup.SavedMissed},
		{context.DeadlineExceeded, dedup.SavedMissed},
		{&SolveError{Reason: "unsolvable"}, dedup.SavedMissed},
		{&SolveError{Refused: true}, dedup.SavedRefused},
		{&BudgetError{}, dedup.SavedRefused},
		{&OutageError{}, dedup.SavedRefused},
		{&pool.RateError{}, dedup.SavedRefused},
		{pool.ErrConflict, dedup.SavedRefused},
		{pool.ErrClosed, dedup.SavedRefused},
		{redisdb.ErrDown, dedup.SavedRefused},
	} {
		counted := &counter{requests: map[dedup.SavingsSource]int{}}
		counted.countFailure(c.err)
		if len(counted.requests) != 1 || counted.requests[c.want] != 1 {
			t.Errorf("%T %v counts as %v, want %s", c.err, c.err, counted.requests, c.want)
		}
	}
}
