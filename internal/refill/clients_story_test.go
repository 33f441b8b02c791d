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
	"poold/internal/targets"
)

// always is a supply that never ends.
type always struct{}

func (always) Out(context.Context) bool              { return false }
func (always) Attend(context.Context, *pool.Request) {}

// clients submit and poll for one target at the first replica.
type clients struct {
	*compat.Tasks

	t     *testing.T
	task  compat.Task
	terms compat.Terms
}

func (w *scenario) clientsOf(target targets.Target) *clients {
	c := &clients{
		Tasks: compat.New(compat.NewRecords(w.store.DB), w.store.Tokens, nil, slog.New(slog.DiscardHandler)), t: w.t,
		task: compat.Task{Caller: "c", Identity: target.ID, Type: target.Identity.Type},
		terms: compat.Terms{
			Take: pool.Request{ID: target.ID, Margin: target.Margin, Caller: "c", MaxWaiting: 410}, Supply: always{},
		},
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	ran := make(chan error, 1)
	go func() { ran <- c.Run(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		if err := <-ran; err != nil {
			w.t.Error(err)
		}
	})
	return c
}

func (c *clients) submit() string {
	number, err := c.Submit(c.t.Context(), c.task, c.terms)
	if err != nil {
		c.t.Errorf("a submit: %v", err)
	}
	return number
}

// poll is the token; "" = not yet.
func (c *clients) poll(number string) string {
	got, err := c.Poll(c.t.Context(), number, c.task.Caller, func(compat.Task) (compat.Terms, error) { return c.terms, nil })
	if err != nil && !errors.Is(err, compat.NotReady) {
		c.t.Errorf("a poll: %v", err)
	}
	return got.Token.Value
}

// However a client asks, it is one request and one order at most, and a token in vain at
// most: beside a worker that buys for whoever waits.
func TestWhatOneClientCosts(t *testing.T) {
	long(t)
	const lead = 65 * time.Second
	minute := func(w *scenario, c *clients, number string) {
		for range 60 {
			w.after(time.Second)
			if token := c.poll(number); token != "" {
				w.t.Errorf("%q comes from nowhere", token)
			}
		}
	}
	type cost struct{ requests, bought, handedOut int64 }
	for name, x := range map[string]struct {
		depth int
		story func(w *scenario, c *clients)
		want  cost
	}{
		"polls an empty pool every second": {0, func(w *scenario, c *clients) {
			number := c.submit()
			minute(w, c, number)
			if asked := w.provider.asked(); asked != 1 {
				w.t.Errorf("%d orders after a minute", asked)
			}
			for range 30 {
				w.after(time.Second)
				c.poll(number)
			}
			if c.poll(number) == "" {
				w.t.Error("its token does not come")
			}
		}, cost{1, 1, 1}},
		"vanishes after a landing": {0, func(w *scenario, c *clients) { minute(w, c, c.submit()) }, cost{1, 1, 1}},
		"never polls, empty pool":  {0, func(_ *scenario, c *clients) { c.submit() }, cost{1, 1, 0}},
		"never polls, full pool":   {3, func(_ *scenario, c *clients) { c.submit() }, cost{0, 3, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, 64, func(t *testing.T, w *scenario) {
				login := target("login", x.depth)
				login.Lifetime = time.Hour
				w.provider.with(func() { w.provider.lead = func() time.Duration { return lead } })
				w.apply(login)
				w.after(2 * lead)
				x.story(w, w.clientsOf(login))
				w.after(10 * time.Minute)
				f := w.stock(login).Figures
				if got := (cost{f.Requests, f.Bought, f.Hits + f.Waited}); got != x.want {
					t.Errorf("%+v, want %+v", got, x.want)
				}
			})
		})
	}
}

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
	var clients *clients
	clientHits, clientBought := run(func(w *scenario, asking *sync.WaitGroup) {
		if clients == nil {
			clients = w.clientsOf(login)
		}
		asking.Go(func() {
			number := clients.submit()
			for clients.poll(number) == "" {
				time.Sleep(5 * time.Second) // as clients do
			}
		})
	})
	t.Logf("callers: %.4f hits, %.0f bought; clients: %.4f, %.0f", hits, bought, clientHits, clientBought)
	if math.Abs(hits-clientHits) > 0.03*hits || math.Abs(bought-clientBought) > 0.03*bought {
		t.Error("the policy takes polling for something else than it is")
	}
}
