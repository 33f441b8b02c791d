package refill_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"poold/internal/captcha"
	"poold/internal/next/pool"
	"poold/internal/next/purchase"
	"poold/internal/next/refill"
	"poold/internal/redisdb/redistest"
	"poold/internal/targets"
	"poold/internal/testkit"
)

func TestMain(m *testing.M) { redistest.Main(m) }

const second = time.Second

var _ refill.Buyer = (*purchase.Buyer)(nil)

// world is an installation in a bubble: a Redis, a solving service, and replicas.
type world struct {
	t      *testing.T
	server *redistest.Bubble
	db     *redis.Client

	mu          sync.Mutex
	concurrency int
	lead        time.Duration
	how         func(s *purchase.Spec) pool.How // nil = all orders are solved
	noProvider  bool
	bought      []purchase.Spec
	times       []time.Time // of the orders in bought
	most        map[captcha.ID]int
}

// bubble runs a test in a bubble.
func bubble(t *testing.T, name string, test func(t *testing.T, w *world)) {
	t.Run(cmp.Or(name, "story"), func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := &world{t: t, server: redistest.InBubble(t), concurrency: 1000, lead: 20 * second, most: map[captcha.ID]int{}}
			w.db = client(w.server.Dial)
			t.Cleanup(func() { _ = w.db.Close() })
			test(t, w)
		})
	})
}

func client(dial func(context.Context, string, string) (net.Conn, error)) *redis.Client {
	return redis.NewClient(&redis.Options{
		Dialer: dial, DisableIdentity: true, ContextTimeoutEnabled: true, MaxRetries: -1,
		PoolSize:                 500, // a client that waits for a connection shares timers with other bubbles
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

// set changes what the service does.
func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// sold returns how many orders were bought for a target.
func (w *world) sold(t targets.Target) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.bought {
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
	name string
	pool *pool.Pool
	log  testkit.Log
	stop func() // waits for the end of Run

	deaf  atomic.Bool // changes wake nobody
	ended atomic.Bool
	mu    sync.Mutex
	dead  bool
	conns []net.Conn
	pace  func(captcha.Type)
}

func (r *replica) dial(ctx context.Context, network, address string) (net.Conn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dead {
		return nil, errors.New("dead")
	}
	conn, err := r.w.server.Dial(ctx, network, address)
	r.conns = append(r.conns, conn)
	return conn, err
}

// kill cuts the replica off from Redis for good.
func (r *replica) kill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dead = true
	for _, conn := range r.conns {
		_ = conn.Close()
	}
}

// start starts a replica with targets.
func (w *world) start(name string, list ...targets.Target) *replica {
	return w.startSet(name, file(list...))
}

func (w *world) startSet(name string, set *targets.Set) *replica {
	r := &replica{w: w, name: name}
	db := client(r.dial)
	changed := func(id captcha.ID) {
		if !r.deaf.Load() {
			r.Changed(id)
		}
	}
	r.pool = pool.New(pool.Config{DB: db, Prefix: "p", Replica: name, Log: r.log.Logger(), Changed: changed})
	r.Manager = refill.New(r.pool, r, r.log.Logger())
	r.Apply(set)
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() { _ = r.pool.Run(ctx, func(int, []string) {}) })
	run.Go(func() { _ = r.Run(ctx); r.ended.Store(true) })
	r.stop = sync.OnceFunc(func() { cancel(); run.Wait() })
	w.t.Cleanup(func() { r.stop(); _ = db.Close() })
	synctest.Wait()
	return r
}

func file(list ...targets.Target) *targets.Set { return &targets.Set{Targets: slices.Clone(list)} }

// Pace implements refill.Buyer.
func (r *replica) Pace(t captcha.Type) (first, interval time.Duration) {
	if r.pace != nil {
		r.pace(t)
	}
	return 10 * second, 5 * second
}

// Buy implements refill.Buyer with the steps of an order in the journal.
func (r *replica) Buy(ctx context.Context, s purchase.Spec, placed func(next captcha.ID, err error)) {
	w, p := r.w, r.pool
	w.mu.Lock()
	lead, how := w.lead, pool.Solved
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
	limited, stop := context.WithTimeout(ctx, 3*second)
	defer stop()
	_, next, err := p.Place(limited, o)
	if err == nil {
		c, _ := p.Look(limited, pool.Query{ID: s.ID, Margin: s.Margin})
		w.mu.Lock()
		w.bought, w.times = append(w.bought, s), append(w.times, time.Now())
		w.most[s.ID] = max(w.most[s.ID], c.Fresh+c.Orders)
		w.mu.Unlock()
	}
	placed(next, err)
	if err != nil {
		return
	}
	end := &pool.End{How: how, Reason: "ERROR " + string(how), Provider: "main", Value: o.Name, Lifetime: s.Lifetime, Margin: s.Margin, Born: lead, Lead: lead}
	if ok, err := p.Begin(ctx, o.Name, "n"); err != nil || !ok {
		return
	}
	if how != pool.Hopeless && how != pool.Refused {
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
		Name: name, Identity: identity, ID: identity.ID(), Depth: depth, Refill: targets.RefillFixed, HitRate: 0.97, MaxWaste: 3,
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
	_, err := r.pool.Take(context.Background(), &pool.Call{Name: rand.Text(), Nonce: "n", ID: t.ID, Margin: t.Margin, MostTickets: 10})
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
	p := pool.New(pool.Config{DB: w.db, Prefix: "p", Replica: "test"})
	c, err := p.Look(context.Background(), pool.Query{ID: t.ID, Margin: t.Margin})
	if err != nil {
		w.t.Fatal(err)
	}
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

// due returns in how many seconds a decision about a target is due.
func (w *world) due(t targets.Target) string {
	at, err := w.db.ZScore(context.Background(), "{p}:due", string(t.ID)).Result()
	if err != nil {
		return "never"
	}
	return fmt.Sprintf("%.1f", (at-float64(time.Now().UnixMilli()))/1000)
}

// scripts counts the scripts until the returned function is called.
func (w *world) scripts() (stop func() int) {
	var n atomic.Int64
	w.server.SetAnswer(func(command string, _ []string) string {
		if strings.HasPrefix(command, "EVAL") {
			n.Add(1)
		}
		return ""
	})
	return func() int { w.server.SetAnswer(nil); return int(n.Load()) }
}

func same[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}
