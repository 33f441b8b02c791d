package refill

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"poold/internal/compat"
	"poold/internal/pool"
	"poold/internal/targets"
	"poold/internal/testkit"
)

// A value of the type always provides an unlimited number of slots.
type always struct{}

func (always) Out(context.Context) bool              { return false }
func (always) Attend(context.Context, *pool.Request) {}

// clients submits and polls tasks of one target at the first replica, like a client of the
// compatible API.
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

// poll returns the token, or "" if the token is not ready yet.
func (c *clients) poll(number string) string {
	got, err := c.Poll(c.t.Context(), number, c.task.Caller, func(compat.Task) (compat.Terms, error) { return c.terms, nil })
	if err != nil && !errors.Is(err, compat.NotReady) {
		c.t.Errorf("a poll: %v", err)
	}
	return got.Token.Value
}

// No matter how a client polls, its task costs at most one request, one order and one wasted token.
func TestWhatOneClientCosts(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
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
