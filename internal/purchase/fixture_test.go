//go:build !race

package purchase_test

import (
	"cmp"
	"context"
	"errors"
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
	"poold/internal/provider"
	"poold/internal/purchase"
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

func TestMain(m *testing.M) { redistest.Main(m) }

const second = time.Second

// world is an installation in a bubble: a Redis and its replicas.
type world struct {
	t      *testing.T
	server *redistest.Bubble
	db     *redis.Client // of the test
	down   atomic.Bool
}

// setDown ends or restores Redis; each replica knows it at once.
func (w *world) setDown(down bool) {
	w.down.Store(down)
	w.server.SetDown(down)
}

// bubble runs a test in a bubble.
func bubble(t *testing.T, name string, test func(t *testing.T, w *world)) {
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := &world{t: t, server: redistest.InBubble(t)}
			w.db, _ = w.server.Client(redis.Options{})
			t.Cleanup(func() { _ = w.db.Close() })
			test(t, w)
		})
	})
}

// replica is a replica with a running Buyer.
type replica struct {
	*purchase.Buyer
	w      *world
	name   string
	folder string // of the dead letters
	pool   *pool.Pool
	log    testkit.Log
	turns  []captcha.ID

	mu     sync.Mutex
	ended  []purchase.Purchase
	took   time.Duration // as of the last end
	counts []string
	usedUp string // the scope of the last budget that refused an order

	buys sync.WaitGroup
	stop func() // of Run; waits for its end
	kill func() // cuts the replica off from Redis for good
}

func (r *replica) Ended(p purchase.Purchase, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended, r.took = append(r.ended, p), took
}

func (r *replica) Count(event, provider, outcome string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts = append(r.counts, event+" "+provider+" "+outcome)
}

// replica starts a replica with the given providers.
func (w *world) replica(name string, listings ...purchase.Listing) *replica {
	r := &replica{w: w, name: name, folder: w.t.TempDir()}
	db, setDown := w.server.Client(redis.Options{MinRetryBackoff: 100 * time.Millisecond})
	r.kill = func() { setDown(true) }
	r.pool = pool.New(pool.Config{Slow: db, Fast: db, Prefix: "p", Replica: name, Log: r.log.Logger(), Away: func() error {
		if w.down.Load() {
			return pool.ErrDown
		}
		return nil
	}})
	r.Buyer = purchase.New(purchase.Config{
		Pool: r.pool, Letters: r.folder, Sink: true, Active: true, Observer: r, Log: r.log.Logger(),
		UsedUp: func(scope, _, _ string, _ time.Time) { r.usedUp = scope },
	})
	r.Turn = func(id captcha.ID) { r.turns = append(r.turns, id) }
	r.SetProviders(listings)
	testkit.NoError(w.t, r.OpenDeadLetters())
	w.t.Cleanup(func() { r.buys.Wait(); _ = db.Close() })
	stop := testkit.Run(w.t, r.Run)
	r.stop = func() { stop(); r.buys.Wait() }
	synctest.Wait()
	return r
}

// buy starts an order and returns the error of its placing.
func (r *replica) buy(s purchase.Spec) error {
	placed := make(chan error, 2)
	r.buys.Go(func() { r.Buy(context.Background(), s, func(_ captcha.ID, err error) { placed <- err }) })
	err := <-placed
	synctest.Wait()
	return err
}

func (r *replica) mustBuy(s purchase.Spec) {
	r.w.t.Helper()
	testkit.NoError(r.w.t, r.buy(s))
}

// mustRefuse expects that no order is placed, for a reason of package pool.
func (r *replica) mustRefuse(s purchase.Spec, reason string) {
	r.w.t.Helper()
	var refused *pool.NotPlacedError
	if err := r.buy(s); !errors.As(err, &refused) || refused.Reason != reason {
		r.w.t.Errorf("the order: %v, want a refusal because of %s", err, reason)
	}
}

// tryFor tries to place an order at each replica in each second.
func tryFor(seconds int, replicas ...*replica) {
	for range seconds {
		for _, r := range replicas {
			_ = r.buy(spec())
		}
		time.Sleep(second)
	}
}

// state returns the state of the nth provider.
func (r *replica) state(n int) provider.StateKind { return r.Providers(r.w.t.Context())[n].State.Kind }

// counted returns the counts so far, sorted.
func (r *replica) counted() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := slices.Clone(r.counts)
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// outcomes returns the ends that the observer saw.
func (r *replica) outcomes() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []string
	for _, p := range r.ended {
		list = append(list, fmt.Sprintf("%s by %s", p.Outcome, p.EndedBy))
	}
	return strings.Join(list, ", ")
}

var identity = captcha.Identity{
	Type: captcha.Turnstile, Sitekey: "0x4AAA", Pageurl: "https://example.com/login", Proxy: "user:secret@proxy:1",
	ProxyType: "http",
}

// spec returns the usual order.
func spec() purchase.Spec {
	return purchase.Spec{
		Target: "login", Owner: "team", Identity: identity, ID: identity.ID(), Depth: 100, Margin: 10 * second,
		Lifetime: 200 * second, Horizon: 20 * second, Budgets: []pool.Budget{{Scope: pool.ScopeOverall, PerDay: 1000}},
	}
}

// take returns the token in stock, and when it was born.
func (w *world) take(r *replica) (string, time.Time) {
	call := pool.Call{Name: fmt.Sprint("call", time.Now().UnixNano()), ID: identity.ID(), Margin: second}
	token, err := r.pool.Take(w.t.Context(), &call)
	if err != nil {
		return err.Error(), time.Time{}
	}
	return token.Value, token.Born
}

// kinds returns the kinds of the rows in the outbox, with their orders' outcomes.
func (w *world) kinds() string {
	var list []string
	for _, m := range w.db.XRange(w.t.Context(), "{p}:outbox:ends", "-", "+").Val() {
		list = append(list, fmt.Sprint(m.Values["kind"]))
	}
	return strings.Join(list, " ")
}

// brake returns the brake of a key as "kind".
func (w *world) brake(key string) string {
	return w.db.HGet(w.t.Context(), "{p}:brake:"+key, "kind").Val()
}

func (w *world) number(key, field string) string {
	return w.db.HGet(w.t.Context(), "{p}:"+key, field).Val()
}

// solves returns the number of orders that the budget counts.
func (w *world) solves() int64 { return w.db.ZCard(w.t.Context(), "{p}:solves:overall").Val() }

// inFlight returns the number of orders in flight at a provider.
func (w *world) inFlight(name string) int64 {
	return w.db.ZCard(w.t.Context(), "{p}:permits:"+name).Val()
}

// fake is a scripted provider. By default its submits return a task, and its polls the token of the task, at once.
type fake struct {
	name   string
	submit func(n int, r provider.Submission) (string, error) // n counts from 1
	poll   func(n int, task string) (provider.Solution, error)
	atOnce *provider.Solution // each submit is answered with it
	limit  time.Duration

	submitErr, pollErr error // of each call that no function answers

	mu       sync.Mutex
	submits  []time.Time
	requests []provider.Submission
	polls    []time.Time
	reports  []string
	threads  int

	threadsErr error
	balance    *float64
}

func newFake(name string) *fake { return &fake{name: name, limit: 120 * second} }

func (f *fake) listing() purchase.Listing {
	price := func(captcha.Type) float64 { return 0.002 }
	return purchase.Listing{Provider: f, Fingerprint: f.name + "-key", Concurrency: 10, Price: price}
}

func (f *fake) Name() string                                      { return f.name }
func (f *fake) Timeout() time.Duration                            { return f.limit }
func (f *fake) Pace(captcha.Type) (first, interval time.Duration) { return 10 * second, 5 * second }
func (f *fake) ReportWindow() time.Duration                       { return time.Minute }
func (f *fake) ReadBalance(context.Context) error                 { return nil }
func (f *fake) Threads(context.Context) (total int, _ bool, _ error) {
	return f.threads, f.threads > 0, f.threadsErr
}

func (f *fake) Balance() *float64                { return f.balance }
func (f *fake) Advice(string) (does, fix string) { return "", "repair it" }

func (f *fake) Submit(ctx context.Context, r provider.Submission) (task string, err error) {
	f.mu.Lock()
	f.submits, f.requests = append(f.submits, time.Now()), append(f.requests, r)
	n, submit, err := len(f.submits), f.submit, f.submitErr
	f.mu.Unlock()
	if task = fmt.Sprint(f.name, n); submit != nil {
		task, err = submit(n, r)
	}
	if err = cmp.Or(ctx.Err(), err); err != nil {
		return "", err
	}
	return task, nil
}

func (f *fake) SolvedAtOnce(string) (s provider.Solution, is bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.atOnce != nil {
		return *f.atOnce, true
	}
	return s, false
}

func (f *fake) Poll(ctx context.Context, task string, _ captcha.Identity) (s provider.Solution, err error) {
	f.mu.Lock()
	f.polls = append(f.polls, time.Now())
	n, poll, err := len(f.polls), f.poll, f.pollErr
	f.mu.Unlock()
	if s = (provider.Solution{Token: "token-of-" + task, Extra: `{"userAgent":"agent"}`}); poll != nil {
		s, err = poll(n, task)
	}
	if err = cmp.Or(ctx.Err(), err); err != nil {
		return provider.Solution{}, err
	}
	return s, nil
}

func (f *fake) Report(_ context.Context, task string, _ captcha.Type, good bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reports = append(f.reports, fmt.Sprint(task, good))
	return nil
}

func (f *fake) submitted() int { f.mu.Lock(); defer f.mu.Unlock(); return len(f.submits) }

func (f *fake) polled() int { f.mu.Lock(); defer f.mu.Unlock(); return len(f.polls) }

// set changes what the functions read while orders run.
func (f *fake) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// fail makes the calls fail from now on; nil = they succeed.
func (f *fake) fail(submits, polls error) {
	f.set(func() { f.submitErr, f.pollErr = submits, polls })
}

// pollTimes returns the times of polls after the first submit, in seconds.
func (f *fake) pollTimes() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []string
	for _, at := range f.polls {
		list = append(list, fmt.Sprintf("%.0f", at.Sub(f.submits[0]).Seconds()))
	}
	return strings.Join(list, " ")
}

func fails(class provider.Class, code string) error { return &provider.Error{Class: class, Code: code} }

// unheard is the error of a call without a proper answer.
func unheard(code string) error {
	return &provider.Error{Class: provider.Capacity, Code: code, Unknown: true}
}

func isDown(err error) bool { return errors.Is(err, pool.ErrDown) }
