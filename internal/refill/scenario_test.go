package refill

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/pool/pooltest"
	"poold/internal/purchase"
	"poold/internal/redisdb/redistest"
	"poold/internal/targets"
	"poold/internal/testkit"
)

func TestMain(m *testing.M) {
	redis.SetLogger(silent{})
	// The embedded server compiles a script at every call. The compilation creates much garbage,
	// although little memory stays in use.
	debug.SetGCPercent(800)
	goleak.VerifyTestMain(m)
}

// silent discards the Redis client's own log, because many tests break its connections.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

type noObserver struct{}

func (noObserver) Ended(purchase.Event)             {}
func (noObserver) Callback(string)                  {}
func (noObserver) BudgetUsedUp(pool.Budget, string) {}
func (noObserver) DeadLetter(string)                {}
func (noObserver) Report(string, string)            {}

// scenario is a Redis, a provider and replicas that use both, in a synctest bubble.
type scenario struct {
	*replica // the first one

	t           *testing.T
	redis       *redistest.Bubble
	book        *book
	provider    *fakeProvider
	concurrency int
	all         []*replica
	elsewhere   *pooltest.Store // store of an additional replica that runs no manager
	set         *targets.Set
}

// replica is one daemon.
type replica struct {
	store   *testStore
	buyer   *purchase.Buyer
	manager *Manager
	stop    context.CancelFunc
	done    chan error
	log     *testkit.Log
	ended   bool
}

// lasting returns n targets with long-lived tokens.
func lasting(n, depth int, lifetime time.Duration) (list []targets.Target) {
	for i := range n {
		x := target(fmt.Sprint("t", i), depth)
		x.Lifetime = lifetime
		list = append(list, x)
	}
	return list
}

// play runs a story in a synctest bubble, in virtual time. A goroutine that outlives the story
// fails the test.
func play(t *testing.T, concurrency int, story func(t *testing.T, w *scenario)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newScenario(t, concurrency)
		w.replica = w.newReplica()
		w.run(w.replica)
		story(t, w)
		w.close()
		for n, r := range w.all {
			if r.log.Count("panic") > 0 {
				t.Errorf("replica %d: %s", n, r.log)
			}
		}
		for _, p := range w.book.placed() {
			if p.sum >= p.Depth {
				t.Errorf("an order was placed on top of %d with depth %d", p.sum, p.Depth)
			}
		}
	})
}

func newScenario(t *testing.T, concurrency int) *scenario {
	w := &scenario{
		t: t, redis: redistest.InBubble(t), provider: newFakeProvider("one"), concurrency: concurrency,
		book: &book{turn: make(chan struct{}, 1)},
	}
	w.elsewhere = newTestStore(t, w.redis, w.book).Store
	return w
}

// newReplica returns a daemon that is not running yet.
func (w *scenario) newReplica() *replica {
	r := &replica{store: newTestStore(w.t, w.redis, w.book), log: &testkit.Log{}, done: make(chan error, 1)}
	quiet := slog.New(slog.DiscardHandler)
	r.buyer = purchase.NewBuyer(r.store, "no letters", noObserver{}, quiet)
	r.buyer.SetProviders([]purchase.Entry{{Provider: w.provider, Concurrency: w.concurrency}})
	r.manager = NewManager(r.store, r.store, r.buyer, noOthers, slog.New(slog.NewTextHandler(r.log, nil)))
	r.store.with(func() { r.store.changed = r.manager.Wake })
	w.all = append(w.all, r)
	w.book.came()
	return r
}

// run starts a daemon that newReplica returned.
func (w *scenario) run(r *replica) {
	lasting, end := context.WithCancel(w.t.Context())
	ctx, stop := context.WithCancel(w.t.Context())
	r.stop = stop
	var group sync.WaitGroup
	group.Go(func() { _ = r.store.Run(lasting) })
	group.Go(func() { _ = r.buyer.Run(lasting) })
	go func() {
		err := r.manager.Run(ctx)
		end()
		group.Wait()
		r.done <- err
	}()
	synctest.Wait()
}

// start starts another daemon for these targets.
func (w *scenario) start(list ...targets.Target) *replica {
	r := w.newReplica()
	r.manager.Apply(w.t.Context(), &targets.Set{Targets: list}) // stored until Run starts
	w.run(r)
	return r
}

// end stops a replica in the same way as SIGTERM does.
func (w *scenario) end(r *replica) {
	if r.ended {
		return
	}
	r.ended = true
	r.stop()
	if err := <-r.done; err != nil {
		w.t.Errorf("run: %v", err)
	}
	w.book.went()
	if err := r.store.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
		w.t.Errorf("closing: %v", err)
	}
}

// kill stops a replica in the same way as SIGKILL does. Afterwards nothing from this replica
// reaches Redis.
func (w *scenario) kill(r *replica) {
	_ = r.store.Close()
	w.end(r)
}

func (w *scenario) close() {
	for _, r := range w.all {
		w.end(r)
	}
	_ = w.elsewhere.Close()
}

// foreign places an order for a target through the store of another replica.
func (w *scenario) foreign(t targets.Target) pool.Ref {
	w.t.Helper()
	ref := pool.Ref{Identity: t.ID, Order: rand.Text()}
	p, err := w.elsewhere.Place(w.t.Context(), pool.Order{Ref: ref, Depth: 1000, Margin: t.Margin, TTL: time.Minute})
	if !p.Placed || err != nil {
		w.t.Fatalf("placing: %+v, %v", p, err)
	}
	return ref
}

func (w *scenario) apply(list ...targets.Target) {
	w.set = &targets.Set{Targets: list}
	w.manager.Apply(w.t.Context(), w.set)
}

// after sleeps for the given virtual time, and then waits until all goroutines are idle.
func (w *scenario) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (w *scenario) status(name string) Status {
	w.t.Helper()
	n, ok := w.manager.Status(name)
	if !ok {
		w.t.Fatalf("no status for %q", name)
	}
	return n
}

// saved contains those fields of a target's saved state that the stories check.
type saved struct {
	Last  float64 // time of the last request in Unix seconds
	Slot  float64 // seconds between two slots
	Cells map[string]json.RawMessage
}

func (w *scenario) saved(t targets.Target) (s saved) {
	w.t.Helper()
	data, err := w.elsewhere.Recall(w.t.Context(), t.ID)
	if err != nil {
		w.t.Fatal(err)
	}
	text, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		w.t.Fatal(err)
	}
	if err := json.NewDecoder(text).Decode(&s); err != nil {
		w.t.Fatal(err)
	}
	return s
}

// target returns a target with a fixed depth. Targets with different names have different
// identities.
func target(name string, depth int) targets.Target {
	id := captcha.Identity{Type: captcha.RecaptchaV2, Sitekey: name, Pageurl: "https://example.com/"}
	return targets.Target{
		Name: name, Identity: id, ID: id.ID(), Depth: depth,
		Lifetime: 120 * time.Second, Margin: 40 * time.Second, Owner: "qa@example.com",
	}
}
