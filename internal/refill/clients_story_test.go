package refill

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"sync"
	"testing"
	"time"

	"poold/internal/compat"
	"poold/internal/pool"
	"poold/internal/refill/policy"
)

// always is a supply that never ends.
type always struct{}

func (always) Out(context.Context) bool              { return false }
func (always) Attend(context.Context, *pool.Request) {}

// The policy sees no difference between callers who take and wait, and clients who submit
// and poll: of one demand and one row of lead times, hit rate and what is bought are the
// same within 3 %. The clients poll at once. Those that sleep first take their token later
// than a caller does: that is another demand, on which two runs differ by more.
func TestClientsAreDemandLikeAnyOther(t *testing.T) {
	long(t)
	arrivals, err := policy.Demand("onoff:0.4", 600, 11) // silence, then a burst
	if err != nil || len(arrivals) < 80 {
		t.Fatalf("%d arrivals, %v", len(arrivals), err)
	}
	login := learning("login", 200)
	run := func(ask func(w *scenario, asking *sync.WaitGroup)) (hitRate, bought float64) {
		play(t, 64, func(t *testing.T, w *scenario) {
			w.provider.like(policy.DefaultSolves())
			w.apply(login)
			began := time.Now()
			var asking sync.WaitGroup
			for _, arrival := range arrivals {
				w.after(max(0, time.Duration(arrival*float64(time.Second))-time.Since(began)))
				ask(w, &asking)
			}
			asking.Wait()
			w.after(3 * time.Minute) // in which what is left expires
			f := w.stock(login).Figures
			if f.Requests != int64(len(arrivals)) {
				t.Errorf("%d requests were counted of %d: %+v", f.Requests, len(arrivals), f)
			}
			hitRate, bought = float64(f.Hits)/float64(f.Requests), float64(f.Bought)
		})
		return hitRate, bought
	}
	// A client waits for its token, so who is compared with it waits too.
	hits, bought := run(func(w *scenario, asking *sync.WaitGroup) {
		asking.Go(func() {
			request := pool.Request{ID: login.ID, Margin: login.Margin, Wait: 15 * time.Minute, MaxWaiting: 410}
			if _, err := w.store.Take(w.t.Context(), request); err != nil {
				w.t.Errorf("a take: %v", err)
			}
		})
	})
	var tasks *compat.Tasks
	clientHits, clientBought := run(func(w *scenario, asking *sync.WaitGroup) {
		if tasks == nil {
			tasks = compat.New(w.store.Tasks, w.store.Tokens, nil, slog.New(slog.DiscardHandler))
			ctx, cancel := context.WithCancel(w.t.Context())
			ran := make(chan error, 1)
			go func() { ran <- tasks.Run(ctx) }()
			w.t.Cleanup(func() {
				cancel()
				if err := <-ran; err != nil {
					w.t.Error(err)
				}
			})
		}
		on := compat.Terms{Take: pool.Request{ID: login.ID, Margin: login.Margin, Caller: "c", MaxWaiting: 410}, Supply: always{}}
		asking.Go(func() {
			number, err := tasks.Submit(w.t.Context(), pool.Task{Caller: "c", Identity: login.ID, Type: login.Identity.Type}, on)
			for err == nil {
				_, err = tasks.Poll(w.t.Context(), number, "c", func(pool.Task) (compat.Terms, error) { return on, nil })
				if err == nil {
					return
				}
				if errors.Is(err, compat.NotReady) {
					err = nil
				}
				time.Sleep(5 * time.Second) // as clients do
			}
			w.t.Errorf("a task: %v", err)
		})
	})
	t.Logf("callers: %.4f hits, %.0f bought; clients: %.4f, %.0f", hits, bought, clientHits, clientBought)
	if math.Abs(hits-clientHits) > 0.03*hits || math.Abs(bought-clientBought) > 0.03*bought {
		t.Error("the policy takes polling for something else than it is")
	}
}
