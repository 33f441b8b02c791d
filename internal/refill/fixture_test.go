package refill_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/redisdb/redistest"
	"poold/internal/refill"
	"poold/internal/targets"
	"poold/internal/testkit"
)

func TestMain(m *testing.M) { redistest.Main(m) }

const second = time.Second

var _ refill.Orderer = (*purchase.Buyer)(nil)

// world is an installation in a bubble: a Redis, a solving service, and replicas.
type world struct {
	t      *testing.T
	server *redistest.Bubble
	db     *redis.Client

	mu          sync.Mutex
	concurrency int
	lead, slow  time.Duration                       // of a solve; before the placing of an order
	how         func(s *purchase.Spec) pool.Outcome // nil = all orders are solved
	noProvider  bool
	bought      []purchase.Spec
	buyers      map[*replica]int // orders of each replica
}

// bubble runs a test in a bubble.
func bubble(t *testing.T, name string, test func(t *testing.T, w *world)) {
	t.Run(cmp.Or(name, "story"), func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := &world{t: t, server: redistest.InBubble(t), concurrency: 1000, lead: 20 * second, buyers: map[*replica]int{}}
			w.db, _ = w.client()
			t.Cleanup(func() { _ = w.db.Close() })
			test(t, w)
		})
	})
}

// client connects to Redis. The function setAway cuts it off from Redis, or ends that.
func (w *world) client() (db *redis.Client, setAway func(away bool)) {
	// A client that waits for a connection shares timers with other bubbles.
	return w.server.Client(redis.Options{MaxRetries: -1, PoolSize: 500})
}

// set changes what the service does.
func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// orders returns the purchases.
func (w *world) orders() (list []purchase.Spec) {
	w.set(func() { list = slices.Clone(w.bought) })
	return list
}

// sold returns how many orders were bought for a target.
func (w *world) sold(t targets.Target) (n int) {
	for _, s := range w.orders() {
		if s.ID == t.ID {
			n++
		}
	}
	return n
}

// replica is a replica with a running Manager.
type replica struct {
	*refill.Manager
	w    *world
	pool *pool.Pool
	log  testkit.Log
	stop func()             // waits for the end of Run
	pace func(captcha.Type) // is called at each decision
	told []string           // the calls of Refused

	deaf    atomic.Bool     // changes cause no wake-up
	setAway func(away bool) // cuts the replica off from Redis
}

// start starts n replicas with the targets of a file.
func (w *world) start(n int, set *targets.Set) (all []*replica) {
	for range n {
		r := &replica{w: w}
		db, setAway := w.client()
		r.setAway = setAway
		changed := func(id captcha.ID) {
			if !r.deaf.Load() {
				r.Changed(id)
			}
		}
		r.pool = pool.New(pool.Config{Slow: db, Fast: db, Prefix: "p", Replica: rand.Text(), Log: r.log.Logger(),
			Changed: changed})
		r.Manager = refill.New(r.pool, r, r.log.Logger())
		r.Refused = func(target, reason string, is bool) {
			r.told = append(r.told, fmt.Sprintf("%s refused %v %q", target, is, reason))
		}
		r.Apply(set)
		w.t.Cleanup(func() { _ = db.Close() })
		r.stop = testkit.Run(w.t, r.Run, func(ctx context.Context) error { return r.pool.Run(ctx, func([]string) {}) })
		all = append(all, r)
	}
	synctest.Wait()
	return all
}

func file(list ...targets.Target) *targets.Set { return &targets.Set{Targets: slices.Clone(list)} }

// Pace implements refill.Orderer.
func (r *replica) Pace(t captcha.Type) (first, interval time.Duration) {
	if r.pace != nil {
		r.pace(t)
	}
	return 10 * second, 5 * second
}

// Buy implements refill.Orderer with the steps of an order in the journal.
func (r *replica) Buy(ctx context.Context, s purchase.Spec, placed func(next captcha.ID, err error)) {
	w, p := r.w, r.pool
	w.mu.Lock()
	lead, slow, how := w.lead, w.slow, pool.Solved
	o := &pool.Order{
		Name: rand.Text(), ID: s.ID, Account: "main", Key: "main.k", Life: lead + time.Minute, Concurrency: w.concurrency,
		Depth: s.Depth, Horizon: s.Horizon, Facts: "{}", Budgets: s.Budgets,
	}
	if w.how != nil {
		how = w.how(&s)
	}
	none := w.noProvider
	w.mu.Unlock()
	if none {
		placed("", purchase.ErrNoProvider)
		return
	}
	time.Sleep(slow)
	limited, stop := context.WithTimeout(ctx, 3*second)
	defer stop()
	_, next, err := p.Place(limited, o)
	if err == nil {
		w.set(func() { w.bought = append(w.bought, s); w.buyers[r]++ })
	}
	placed(next, err)
	if err != nil {
		return
	}
	end := &pool.End{
		Outcome: how, Reason: "ERROR " + string(how), Provider: "main", Value: o.Name, Lifetime: s.Lifetime, Margin: s.Margin,
		BornAfter: lead, Lead: lead,
	}
	if ok, err := p.Begin(ctx, o.Name, "n"); err != nil || !ok {
		return
	}
	if how != pool.BadParameters && how != pool.Refused {
		if _, err := p.Bought(ctx, o, o.Name, ""); err != nil {
			return
		}
		select {
		case <-time.After(lead):
		case <-ctx.Done():
			return // it stays in the journal
		}
	}
	if _, next, err := p.End(ctx, o, end); err == nil && next != "" && !r.deaf.Load() {
		r.Changed(next)
	}
}

// target returns a target with a fixed depth. Its tokens live 100 s and have a margin of 10 s.
func target(name string, depth int) targets.Target {
	identity := captcha.Identity{Type: captcha.Turnstile, Sitekey: "0x4AAA", Pageurl: "https://example.com/" + name}
	return targets.Target{
		Name: name, Identity: identity, ID: identity.ID(), Depth: depth, Refill: targets.RefillFixed, HitRate: 0.97,
		MissCost: 3,
		Lifetime: 100 * second, Margin: 10 * second, Owner: "team",
	}
}

func adaptive(name string, depth int) targets.Target {
	t := target(name, depth)
	t.Refill = targets.RefillAdaptive
	return t
}

// take takes a token without a wait.
func (r *replica) take(t targets.Target) bool {
	_, err := r.pool.Take(context.Background(), &pool.Call{
		Name: rand.Text(), Nonce: "n", ID: t.ID, Margin: t.Margin, MostTickets: 10,
	})
	return err == nil
}

// demand requests a token at each interval, at one replica after the other, and returns the requests and hits.
func (w *world) demand(t targets.Target, every, long time.Duration, replicas ...*replica) (asked, hits int) {
	for began := time.Now(); time.Since(began) < long; asked++ {
		time.Sleep(every)
		if replicas[asked%len(replicas)].take(t) {
			hits++
		}
	}
	return asked, hits
}

func (w *world) counts(t targets.Target) pool.Counts {
	p := pool.New(pool.Config{Slow: w.db, Fast: w.db, Prefix: "p", Replica: "test"})
	c, err := p.Counts(context.Background(), pool.Query{ID: t.ID, Margin: t.Margin})
	testkit.NoError(w.t, err)
	return c
}

func (w *world) status(t targets.Target) refill.Status {
	c := w.counts(t)
	return refill.StatusOf(&t, &c)
}

// state returns the state and the reason of a target.
func (w *world) state(t targets.Target) string {
	s := w.status(t)
	return strings.TrimSpace(s.State + " " + s.Reason)
}

// due reports whether Redis has the time of a decision about an identity.
func (w *world) due(id captcha.ID) bool {
	return w.db.ZScore(context.Background(), "{p}:due", string(id)).Err() == nil
}

// commands counts the scripts, and the reads of a learned state, of all clients until the returned function is called.
func (w *world) commands() (stop func() (scripts, reads int)) {
	var evals, gets atomic.Int64
	w.server.SetAnswer(func(command string, _ []string) string {
		switch command {
		case "EVAL", "EVALSHA":
			evals.Add(1)
		case "GET":
			gets.Add(1)
		}
		return ""
	})
	return func() (int, int) { w.server.SetAnswer(nil); return int(evals.Load()), int(gets.Load()) }
}
