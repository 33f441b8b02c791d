// Package solvetest has replicas with a simulated solving service for the tests of packages solve and compat.
// Everything runs in a synctest bubble, over the real pool on the embedded Redis.
package solvetest

import (
	"cmp"
	"context"
	crand "crypto/rand"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/captcha"
	"poold/internal/claims"
	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/redisdb"
	"poold/internal/redisdb/redistest"
	"poold/internal/solve"
)

// Life is the lifetime of a token, and Margin its margin.
const (
	Life   = 2 * time.Minute
	Margin = 5 * time.Second
)

// World is a Redis and a solving service with one account, which replicas share.
type World struct {
	Server *redistest.Bubble

	ending   sync.WaitGroup
	mu       sync.Mutex
	replicas []*Peer
	sold     int
	specs    map[captcha.ID]purchase.Spec // of targets

	Wrap   func(claims.Store) claims.Store // wraps the claim store of each replica that starts; nil = it is not wrapped
	UsedUp string                          // the scope of the budget that refused an order last
	Log    *slog.Logger                    // of each replica that starts

	// These fields describe the service. A test changes them by Set.
	Lead        time.Duration                   // of a solve
	Concurrency int                             // of the account
	NoProvider  error                           // what Buy reports instead of an order
	End         func(n int, e *pool.End) string // changes the nth order's end; "" = after Lead, else before its submit
}

// New returns a World without replicas. It must be called in a bubble.
func New(t testing.TB) *World {
	w := &World{Server: redistest.InBubble(t), Lead: 10 * time.Second, Concurrency: 100,
		specs: map[captcha.ID]purchase.Spec{}, Log: slog.New(slog.DiscardHandler)}
	t.Cleanup(func() {
		w.ending.Wait()
		for _, r := range w.replicas {
			r.Stop()
		}
	})
	return w
}

// Sold returns the number of tasks that the service accepted.
func (w *World) Sold() (n int) {
	w.Set(func(w *World) { n = w.sold })
	return n
}

// Set changes the service.
func (w *World) Set(change func(w *World)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(w)
}

// Target makes a target known to the refillers.
func (w *World) Target(s purchase.Spec) { w.Set(func(w *World) { w.specs[s.ID] = s }) }

// Peer is a replica. It refills like the real one, but without its policy.
type Peer struct {
	Pool   *pool.Pool
	Solver *solve.Solver
	DB     *redis.Client
	Store  claims.Store // of its claims

	world    *World
	db       *redisdb.DB // of its claims
	running  sync.WaitGroup
	stop     context.CancelFunc
	refusals purchase.Refusals

	mu      sync.Mutex
	guests  map[captcha.ID]int
	specs   map[captcha.ID]purchase.Spec
	changed chan captcha.ID
	dead    atomic.Bool
}

// Start starts a replica.
func (w *World) Start() *Peer {
	r := &Peer{world: w, changed: make(chan captcha.ID, 1000)}
	r.guests, r.specs = map[captcha.ID]int{}, map[captcha.ID]purchase.Spec{}
	r.DB, _ = w.Server.Client(redis.Options{MaxRetries: -1})
	w.Set(func(w *World) { w.replicas = append(w.replicas, r) })
	name := fmt.Sprint("r", len(w.replicas))
	changed := func(id captcha.ID) {
		select {
		case r.changed <- id:
		default:
		}
	}
	r.Pool = pool.New(pool.Config{Slow: r.DB, Fast: r.DB, Prefix: "p", Replica: name, Log: w.Log, Changed: changed})
	usedUp := func(scope, _, _ string, _ time.Time) { w.Set(func(w *World) { w.UsedUp = scope }) }
	r.refusals = purchase.Refusals{Pool: r.Pool, Log: w.Log, UsedUp: usedUp}
	bubble := redisdb.Options{Addresses: redistest.BubbleAddress, Prefix: "p", Dial: w.Server.Dial, Log: w.Log}
	db, err := redisdb.Open(bubble)
	if err != nil {
		panic(err)
	}
	r.db, r.Store = db, claims.InRedis(db)
	if w.Wrap != nil {
		r.Store = w.Wrap(r.Store)
	}
	shared := &claims.Claims{Store: r.Store}
	r.Solver = solve.New(solve.Config{Pool: r.Pool, Buy: r.Buy, Refiller: r, Claims: shared, Log: w.Log})
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	r.running.Go(func() { _ = r.Pool.Run(ctx, func([]string) {}) })
	r.running.Go(func() { _ = r.Solver.Run(ctx) })
	r.running.Go(func() { r.refill(ctx) })
	time.Sleep(100 * time.Millisecond) // its first beat
	return r
}

// Kill ends the replica as SIGKILL does: no call reaches Redis any more. Its orders go on as if another replica had
// adopted them.
func (r *Peer) Kill() { r.end(func() {}) }

// Stop ends the replica as SIGTERM does.
func (r *Peer) Stop() {
	r.end(func() {
		r.stop()
		r.Pool.EndWaits()
		r.running.Wait()
		_ = r.Pool.Leave(context.Background())
	})
}

func (r *Peer) end(orderly func()) {
	if r.dead.Swap(true) {
		return
	}
	orderly()
	_ = r.DB.Close()
	_ = r.db.Close()
	r.stop()
	r.running.Wait()
}

// Guest implements solve.Refiller.
func (r *Peer) Guest(s purchase.Spec) func() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.guests[s.ID]++
	r.specs[s.ID] = s
	return sync.OnceFunc(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.guests[s.ID]--; r.guests[s.ID] == 0 {
			delete(r.guests, s.ID)
			delete(r.specs, s.ID)
		}
	})
}

// Guests returns the number of guests that are known to the refiller.
func (r *Peer) Guests() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.guests)
}

// refill decides about an identity when the identity has changed, and about all known identities twice a second.
func (r *Peer) refill(ctx context.Context) {
	var bought sync.WaitGroup
	defer bought.Wait()
	for {
		var ids []captcha.ID
		select {
		case <-ctx.Done():
			return
		case id := <-r.changed:
			ids = []captcha.ID{id}
		case <-time.After(400*time.Millisecond + rand.N(200*time.Millisecond)): //nolint:gosec // G404: a test
			ids, _ = r.Pool.Due(ctx, 100)
		}
		for _, id := range ids {
			r.mu.Lock()
			spec, known := r.specs[id]
			r.mu.Unlock()
			if !known {
				r.world.Set(func(w *World) { spec, known = w.specs[id] })
				if !known { // it is given back: another replica may know it
					at := float64(time.Now().Add(100 * time.Millisecond).UnixMilli())
					r.DB.ZAddArgs(ctx, "{p}:due", redis.ZAddArgs{XX: true, Members: []redis.Z{{Score: at, Member: string(id)}}})
					continue
				}
			}
			for {
				c, err := r.Pool.Decide(ctx, pool.Query{ID: id, Margin: spec.Margin, Want: spec.Depth, Recheck: 30 * time.Second})
				if err != nil || spec.Image != nil || c.Outliving+c.Orders >= spec.Depth+c.Waiting {
					break
				}
				placed := make(chan error, 1)
				bought.Go(func() { r.Buy(ctx, spec, func(_ captcha.ID, err error) { placed <- err }) })
				if <-placed != nil {
					break
				}
			}
		}
	}
}

// Buy buys as purchase.Buyer does, from a service without a network.
func (r *Peer) Buy(ctx context.Context, s purchase.Spec, tried func(next captcha.ID, err error)) {
	w, p := r.world, r.Pool
	w.mu.Lock()
	noProvider, concurrency, lead, change := w.NoProvider, w.Concurrency, w.Lead, w.End
	w.mu.Unlock()
	if noProvider != nil {
		r.refusals.Tell(ctx, &s, noProvider)
		tried("", noProvider)
		return
	}
	order := &pool.Order{
		Name: crand.Text(), ID: s.ID, Account: "main", Key: "main.k", Life: 5 * time.Minute, Concurrency: concurrency,
		Depth: s.Depth, Horizon: s.Horizon, Facts: "{}", Unpooled: s.Image != nil, Budgets: s.Budgets,
	}
	if _, next, err := p.Place(ctx, order); err != nil {
		r.refusals.Tell(ctx, &s, err)
		tried(next, err)
		return
	}
	n := 0
	w.Set(func(w *World) { w.sold++; n = w.sold })
	tried("", nil)
	end := &pool.End{
		Outcome: pool.Solved, Provider: "main", Value: fmt.Sprint("token ", n), BornAfter: lead,
		Lifetime: cmp.Or(s.Lifetime, Life), Margin: s.Margin, Repeats: s.Image != nil,
	}
	early := ""
	if change != nil {
		early = change(n, end)
	}
	if early == "" {
		if ok, err := p.Begin(ctx, order.Name, "n"); err != nil || !ok {
			return
		}
		_, _ = p.Bought(ctx, order, fmt.Sprint(n), "")
	}
	if end.Outcome != pool.Solved && end.Outcome != pool.Busy {
		end.Answer = &pool.FailedError{BadParameters: end.Outcome == pool.BadParameters, Reason: end.Reason}
	}
	ended := make(chan struct{})
	w.ending.Go(func() { //nolint:contextcheck // the order outlives its replica
		defer close(ended)
		if early == "" {
			time.Sleep(lead)
		}
		// If the replica is dead, another one has adopted the order.
		end.Anyone = true
		for _, r := range w.live() {
			if _, _, err := r.Pool.End(context.Background(), order, end); err == nil {
				return
			}
		}
	})
	select {
	case <-ended:
	case <-ctx.Done():
	}
}

func (w *World) live() (live []*Peer) {
	w.Set(func(w *World) { live = slices.Clone(w.replicas) })
	return slices.DeleteFunc(live, func(r *Peer) bool { return r.dead.Load() })
}

// Fail makes each order fail.
func Fail(how pool.Outcome, reason string) func(n int, e *pool.End) string {
	return func(_ int, e *pool.End) string {
		*e = pool.End{Outcome: how, Reason: reason}
		if how == pool.Failed {
			return ""
		}
		return "early"
	}
}

// GuestSpec returns the Spec of an order for a page without a target.
func GuestSpec(page string) *purchase.Spec {
	identity := captcha.Identity{Type: captcha.Turnstile, Sitekey: "k", Pageurl: page}
	return &purchase.Spec{
		Target: "guest", Identity: identity, ID: pool.Guest(identity.ID()), Margin: Margin, Horizon: Margin, Lifetime: Life,
		Guest: true, Budgets: []pool.Budget{{Scope: pool.ScopeSolve, PerDay: 100}},
	}
}

// PictureSpec returns the Spec of an order for a picture.
func PictureSpec(bytes string) *purchase.Spec {
	s := GuestSpec("")
	s.Identity = captcha.Identity{Type: captcha.Image, Picture: captcha.Picture{SHA256: bytes}}
	s.ID, s.Image = pool.Guest(s.Identity.ID()), []byte(bytes)
	return s
}

// Request returns a request for a guest.
func Request(s *purchase.Spec, wait time.Duration, key string) solve.Request {
	call := &pool.Call{ID: s.ID, Margin: s.Margin, Wait: wait, MostTickets: solve.MostWaiting}
	solve.Identify(call, "qa", key)
	return solve.Request{Call: call, Guest: s}
}
