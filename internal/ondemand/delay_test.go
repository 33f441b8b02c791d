package ondemand

import (
	"context"
	"errors"
	"testing"
	"time"

	"poold/internal/pool"
	"poold/internal/redisdb"
)

// These tests check that a step follows immediately after an event. Without the event, the replica
// would notice the change only up to a second later, or at the end of a lease.

// atOnce limits the time for a step that needs no waiting.
const atOnce = 100 * time.Millisecond

// The end of a shared solve immediately reaches the sharers at all replicas.
func TestAnEndReachesAllReplicasAtOnce(t *testing.T) {
	for name, fail := range map[string]bool{"a token": false, "a failure": true} {
		play(t, 3, func(t *testing.T, w *scenario) {
			w.service.fail = fail
			var a answers
			for i, r := range w.replicas {
				a.call(t.Context(), r, 2, sharing(request("x")))
				time.Sleep(time.Duration(i) * 170 * time.Millisecond) // so that the replicas check at different times
			}
			a.calls.Wait()
			if len(a.at) != 6 || a.at[5].Sub(a.at[0]) > atOnce {
				t.Errorf("%s: answered at %v", name, a.at)
			}
		})
	}
}

// A solve outlasts outages of the claim store. A short outage delays no token. In a long outage the
// holder loses its lease and then takes the claim again.
func TestASolveOutlastsOutagesOfTheClaimStore(t *testing.T) {
	for name, c := range map[string]struct{ from, to time.Duration }{
		"short": {28 * time.Second, 29500 * time.Millisecond},
		"long":  {20 * time.Second, 28 * time.Second},
	} {
		play(t, 0, func(t *testing.T, w *scenario) {
			f := &freezer{}
			r := w.start(doubles{claims: f.before})
			w.service.lead = 30 * time.Second
			began := time.Now()
			var a answers
			a.call(t.Context(), r, 3, sharing(request("x")))
			time.Sleep(c.from)
			f.on.Store(true)
			time.Sleep(c.to - c.from)
			f.on.Store(false)
			a.calls.Wait()
			took := time.Since(began)
			if len(a.errs) > 0 || a.sources[FromSolve] != 1 || a.sources[FromShared] != 2 || w.service.sold() != 1 || took > 31500*time.Millisecond {
				t.Errorf("%s: after %v %v, %v, %d bought", name, took, a.sources, a.errs, w.service.sold())
			}
		})
	}
}

// cutOff is a stock whose takes fail after the context in the field `cut` has ended.
type cutOff struct {
	Tokens
	cut context.Context //nolint:containedctx // an event of the story cancels it
}

func (c cutOff) Take(ctx context.Context, r pool.Request) (pool.Token, error) {
	taking, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.cut, cancel)()
	token, err := c.Tokens.Take(taking, r)
	if c.cut.Err() != nil {
		return pool.Token{}, redisdb.ErrDown
	}
	return token, err
}

// A holder that cannot take tokens any more releases its claim. The next replica does not wait for
// the end of the lease.
func TestAHolderWithoutRedisReleasesItsClaim(t *testing.T) {
	play(t, 1, func(t *testing.T, w *scenario) {
		cut, end := context.WithCancel(t.Context())
		defer end()
		r := w.start(doubles{tokens: func(t Tokens) Tokens { return cutOff{t, cut} }})
		var first, second answers
		first.call(t.Context(), r, 1, sharing(request("x")))
		time.Sleep(time.Second)
		second.call(t.Context(), w.replicas[0], 2, sharing(request("x")))
		time.Sleep(8200 * time.Millisecond)
		began := time.Now()
		end()
		first.calls.Wait()
		second.calls.Wait()
		if len(first.errs) != 1 || !errors.Is(first.errs[0], redisdb.ErrDown) {
			t.Errorf("at the holder: %v", first.errs)
		}
		if took := time.Since(began); len(second.errs) > 0 || second.sources[FromSolve] != 1 || w.service.sold() != 1 || took > 2500*time.Millisecond {
			t.Errorf("at the other replica after %v: %v, %v, %d bought", took, second.sources, second.errs, w.service.sold())
		}
	})
}
