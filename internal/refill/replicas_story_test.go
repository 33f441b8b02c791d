package refill

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
	"poold/internal/purchase"
	"poold/internal/targets"
)

// mortal is the stock as seen by a replica that may be killed: then it saves
// nothing any more.
type mortal struct {
	*shelf
	dead atomic.Bool
}

func (m *mortal) Remember(ctx context.Context, id captcha.ID, learned []byte) error {
	if m.dead.Load() {
		return nil
	}
	return m.shelf.Remember(ctx, id, learned)
}

// replica is one daemon of several on one shelf.
type replica struct {
	stock   *mortal
	manager *Manager
	cancel  context.CancelFunc
	done    chan error
}

// crew are the daemons of a world.
type crew struct {
	*world
	alive []*replica
}

func newCrew(w *world) *crew {
	c := &crew{world: w}
	w.shelf.with(func() {
		w.shelf.changed = func(id captcha.ID) {
			for _, r := range c.alive {
				r.manager.Kick(id)
			}
		}
	})
	return c
}

// start starts a daemon of its own for these targets.
func (c *crew) start(list ...targets.Target) *replica {
	r := &replica{stock: &mortal{shelf: c.shelf}, done: make(chan error, 1)}
	desk := purchase.NewDesk(r.stock, "no letters", deaf{}, slog.New(slog.DiscardHandler))
	desk.SetProviders([]purchase.Entry{{Provider: c.market, Concurrency: 64}})
	r.manager = NewManager(r.stock, desk, slog.New(slog.DiscardHandler))
	r.manager.Apply(c.t.Context(), &targets.Set{Targets: list})
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(c.t.Context())
	go func() { r.done <- r.manager.Run(ctx) }()
	synctest.Wait()
	c.alive = append(c.alive, r)
	return r
}

// end is how a daemon ends. Others can adopt its orders after the lease.
func (c *crew) end(r *replica, lease time.Duration) {
	c.alive = slices.DeleteFunc(slices.Clone(c.alive), func(other *replica) bool { return other == r })
	r.cancel()
	if err := <-r.done; err != nil {
		c.t.Error(err)
	}
	time.AfterFunc(lease, func() {
		c.shelf.with(func() {
			for order := range c.shelf.placedAt {
				c.shelf.orphans[order] = true
			}
		})
	})
}

// kill is SIGKILL; the order's lease is 5 s.
func (c *crew) kill(r *replica) {
	r.stock.dead.Store(true)
	c.end(r, 5*time.Second)
}

// cronHits lets a job come every ten minutes, and answers what share of the
// requests from the twelfth time on found a token. event comes in the middle of
// that time.
func cronHits(t *testing.T, replicas int, event func(c *crew, login targets.Target)) (hits float64) {
	const before, counted = 2 * time.Hour, 5 * time.Hour
	arrivals := trace(t, "cron10")
	last, _ := slices.BinarySearch(arrivals, (before + counted).Seconds())
	arrivals = arrivals[:last]
	play(t, 64, func(t *testing.T, w *world) {
		sound := DefaultSolves()
		sound.Fail = 0
		w.market.like(sound)
		c := newCrew(w)
		login := learning("login", 200)
		for range replicas {
			c.start(login)
		}
		began, asked, got, happened := time.Now(), 0, 0, false
		for i, arrival := range arrivals {
			w.after(max(0, time.Duration(arrival*float64(time.Second))-time.Since(began)))
			found := w.shelf.take(login)
			if arrival < before.Seconds() {
				continue
			}
			asked++
			if found {
				got++
			}
			if !happened && arrival-arrivals[i-10] < 60 {
				happened = true
				event(c, login)
			}
		}
		hits = float64(got) / float64(asked)
		for _, r := range c.alive {
			c.end(r, 0)
		}
		w.after(time.Second)
	})
	return hits
}

// A restart in the middle of a job's requests, by SIGTERM or SIGKILL, and the death
// of one of two replicas cost next to nothing: what was learned is in Redis, and
// every replica has seen all of it.
func TestMemoryOutlivesReplicas(t *testing.T) {
	const runs = 2
	undisturbed := 0.0
	for range runs {
		undisturbed += cronHits(t, 1, func(*crew, targets.Target) {}) / runs
	}
	if undisturbed < 0.95 {
		t.Errorf("undisturbed %.4f hits: the job was not learned", undisturbed)
	}
	const away = 2 * time.Second
	cases := map[string]struct {
		replicas int
		event    func(c *crew, login targets.Target)
	}{
		"restart": {1, func(c *crew, login targets.Target) {
			c.end(c.alive[0], 0)
			c.after(away)
			c.start(login)
		}},
		"kill and restart": {1, func(c *crew, login targets.Target) {
			c.kill(c.alive[0])
			c.after(away)
			c.start(login)
		}},
		"one of two is killed":    {2, func(c *crew, _ targets.Target) { c.kill(c.alive[0]) }},
		"the other one is killed": {2, func(c *crew, _ targets.Target) { c.kill(c.alive[1]) }},
	}
	for name, x := range cases {
		t.Run(name, func(t *testing.T) {
			got := cronHits(t, x.replicas, x.event)
			t.Logf("%.4f hits, undisturbed %.4f", got, undisturbed)
			if got < undisturbed-0.02 {
				t.Error("more than two points fewer")
			}
		})
	}
}
