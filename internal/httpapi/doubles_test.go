package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"poold/internal/captcha"
	"poold/internal/outcomes"
	"poold/internal/pool"
	"poold/internal/pool/pooltest"
	"poold/internal/redisdb"
	"poold/internal/redisdb/redistest"
	"poold/internal/targets"
	"poold/internal/testkit"
)

func TestMain(m *testing.M) {
	redis.SetLogger(discardLogger{})
	// If a handler responds before it has read the whole body, net/http closes the connection half a
	// second after the response. The check for leaked goroutines does not wait that long.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// discardLogger discards the log of go-redis, because this log has a line for each dial that a test
// breaks.
type discardLogger struct{}

func (discardLogger) Printf(context.Context, string, ...any) {}

type fakeConfig struct {
	set      atomic.Pointer[targets.Set]
	problems []targets.Problem // problems of the last attempt to load the file
	refused  bool              // the problems made the load fail
	reload   func(ctx context.Context) error

	mu sync.Mutex // held while the problems change
}

// setProblems sets the outcome of the last attempt to load the file: a failure with these problems,
// or a success without problems.
func (f *fakeConfig) setProblems(problems ...targets.Problem) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.problems, f.refused = problems, len(problems) > 0
}

func (f *fakeConfig) Current() *targets.Set { return f.set.Load() }

func (f *fakeConfig) Status() targets.Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	return targets.Status{LoadedAt: day, OK: !f.refused, Problems: f.problems}
}

func (f *fakeConfig) Reload(ctx context.Context, _ string) error { return f.reload(ctx) }

// watchedStock is the real store on an embedded server. watchedStock records the calls. A test can
// make a call fail or delay it.
type watchedStock struct {
	*pooltest.Store
	redis *redistest.Bubble
	// before is called with the name of each call, before the call goes to the store. If
	// before returns an error, the call fails with this error. nil = no-op.
	before func(ctx context.Context, call string) error
	// taken is called after the store has removed a token and before the take returns.
	// nil = no-op.
	taken func(ctx context.Context)
	short bool                           // surveys omit one target
	away  error                          // the error of the first target in surveys; nil = none
	ill   atomic.Pointer[redisdb.Health] // the result of Health; nil = the real one
	crowd *crowd                         // the result of surveys; nil = the real one

	mu       sync.Mutex
	calls    []string // names of the calls
	requests []pool.Request
	queries  []pool.Query // queries of the last survey
	orders   atomic.Int64 // number of orders so far
}

func (w *watchedStock) called(ctx context.Context, call string) error {
	w.mu.Lock()
	w.calls = append(w.calls, call)
	w.mu.Unlock()
	if w.before == nil {
		return nil
	}
	return w.before(ctx, call)
}

// guard makes a call, unless the test wants the call to fail.
func (w *watchedStock) guard(ctx context.Context, call string, do func() error) error {
	if err := w.called(ctx, call); err != nil {
		return err
	}
	return do()
}

func guarded[T any](ctx context.Context, w *watchedStock, call string, do func() (T, error)) (got T, err error) {
	err = w.guard(ctx, call, func() (err error) { got, err = do(); return err })
	return got, err
}

func (w *watchedStock) Take(ctx context.Context, r pool.Request) (pool.Token, error) {
	w.mu.Lock()
	w.requests = append(w.requests, r)
	w.mu.Unlock()
	if err := w.called(ctx, "take"); err != nil {
		return pool.Token{}, err
	}
	token, err := w.Store.Take(ctx, r)
	if err == nil && w.taken != nil {
		w.taken(ctx)
	}
	return token, err
}

func (w *watchedStock) Return(t pool.Token) error {
	return w.guard(context.Background(), "return", func() error { return w.Store.Return(t) })
}

func (w *watchedStock) LookAll(ctx context.Context, queries []pool.Query) ([]pool.Stock, error) {
	w.mu.Lock()
	w.queries = queries
	w.mu.Unlock()
	if err := w.called(ctx, "survey"); err != nil {
		return nil, err
	}
	if w.crowd != nil {
		return w.crowd.survey(queries), nil
	}
	stocks, err := w.Store.LookAll(ctx, queries)
	if w.short && err == nil {
		stocks = stocks[1:]
	}
	if w.away != nil && err == nil {
		stocks[0] = pool.Stock{Err: w.away}
	}
	return stocks, err
}

func (w *watchedStock) LastDay(ctx context.Context, id captcha.ID, now time.Time) ([]pool.Period, error) {
	return guarded(ctx, w, "last day", func() ([]pool.Period, error) { return w.Store.LastDay(ctx, id, now) })
}

func (w *watchedStock) Health() redisdb.Health {
	if said := w.ill.Load(); said != nil {
		return *said
	}
	return w.DB.Health()
}

func (w *watchedStock) Pause(ctx context.Context, id captcha.ID, p pool.Pause) error {
	return w.guard(ctx, "pause", func() error { return w.Store.Pause(ctx, id, p) })
}

func (w *watchedStock) Resume(ctx context.Context, id captcha.ID) error {
	return w.guard(ctx, "resume", func() error { return w.Store.Resume(ctx, id) })
}

func (w *watchedStock) Retry(ctx context.Context, id captcha.ID) (bool, error) {
	return guarded(ctx, w, "retry", func() (bool, error) { return w.Store.Retry(ctx, id) })
}

func (w *watchedStock) Flush(ctx context.Context, id captcha.ID, margin time.Duration) (int, error) {
	return guarded(ctx, w, "flush", func() (int, error) { return w.Store.Flush(ctx, id, margin) })
}

func (w *watchedStock) Bind(ctx context.Context, idempotency string, id captcha.ID, life time.Duration) error {
	return w.guard(ctx, "bind", func() error { return w.Store.Bind(ctx, idempotency, id, life) })
}

func (w *watchedStock) Sold(ctx context.Context, id captcha.ID, token, caller string) error {
	return w.guard(ctx, "sold", func() error { return w.Store.Sold(ctx, id, token, caller) })
}

func (w *watchedStock) Report(ctx context.Context, id captcha.ID, token, caller string, accepted bool) (pool.Sale, error) {
	return guarded(ctx, w, "report", func() (pool.Sale, error) { return w.Store.Report(ctx, id, token, caller, accepted) })
}

// countTakes returns the number of takes, and the last take.
func (w *watchedStock) countTakes() (int, pool.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.requests) == 0 {
		return 0, pool.Request{}
	}
	return len(w.requests), w.requests[len(w.requests)-1]
}

// countCalls returns the number of calls with these names. Without names, it returns the number of
// all calls.
func (w *watchedStock) countCalls(names ...string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, call := range w.calls {
		if len(names) == 0 || slices.Contains(names, call) {
			n++
		}
	}
	return n
}

// failCalls makes calls with this name fail with err. If err is nil, the calls succeed again.
func (w *watchedStock) failCalls(name string, err error) {
	w.before = func(_ context.Context, call string) error {
		if call == name {
			return err
		}
		return nil
	}
}

// openStock opens a store on an embedded server that runs until the test ends.
func openStock(t testing.TB) *watchedStock {
	t.Helper()
	redis := redistest.Embedded(t)
	return &watchedStock{redis: redis, Store: runStore(t, pool.Options{Addresses: "redis://embedded", Prefix: "captcha", Dial: redis.Dial})}
}

// runStore opens a store that works until the test ends.
func runStore(t testing.TB, o pool.Options) *pooltest.Store {
	t.Helper()
	o.Log = slog.New(slog.DiscardHandler)
	store, err := pooltest.Open(o)
	noError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = store.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		noError(t, store.Close())
	})
	return store
}

// repeated makes a call again while the call fails with ErrDown, because on a busy machine a call
// may exceed its limit of a second.
func repeated[T any](call func() (T, error)) (got T, err error) {
	for range 10 {
		if got, err = call(); !errors.Is(err, redisdb.ErrDown) {
			break
		}
	}
	return got, err
}

func (w *watchedStock) order(t testing.TB, target *targets.Target) pool.Ref {
	t.Helper()
	ref := pool.Ref{Identity: target.ID, Order: fmt.Sprintf("o%d", w.orders.Add(1))}
	placed, err := repeated(func() (pool.Placing, error) {
		return w.Place(t.Context(), pool.Order{Ref: ref, Depth: 1 << 20, TTL: 5 * time.Minute})
	})
	if err != nil || !placed.Placed {
		t.Fatalf("placing %s: %+v, %v", ref, placed, err)
	}
	return ref
}

// landToken lands the token of an order. The remaining life of the token is 120 s minus the given
// age. The text of the token contains the order's id, because the stock detects repeated texts.
func (w *watchedStock) landToken(t testing.TB, ref pool.Ref, age time.Duration) {
	t.Helper()
	w.landText(t, ref, tokenValue+"-"+ref.Order, age)
}

func (w *watchedStock) landText(t testing.TB, ref pool.Ref, value string, age time.Duration) {
	t.Helper()
	how, err := repeated(func() (pool.EndResult, error) {
		return w.Settle(t.Context(), pool.Landing{
			Ref: ref, Provider: "solver", Task: "t-" + ref.Order, Value: value, SincePlaced: -age, Lifetime: 120 * time.Second, Lead: 18 * time.Second,
		})
	})
	if err != nil || how == pool.NotOwner || how == pool.Repeated { // pool.Gone means that an earlier attempt has landed the token
		t.Fatalf("landing %s: %v, %v", ref, how, err)
	}
}

func (w *watchedStock) readStock(t testing.TB, target *targets.Target) pool.Stock {
	t.Helper()
	stock, err := repeated(func() (pool.Stock, error) { return w.Look(t.Context(), target.ID, target.Margin, 0) })
	noError(t, err)
	return stock
}

// putBack waits until n tokens are back in the stock, and then returns the state of the stock.
func (w *watchedStock) putBack(t *testing.T, target *targets.Target, n int) (stock pool.Stock) {
	t.Helper()
	testkit.Within(t, 20*time.Second, "tokens without a receiver are back", func() bool {
		stock = w.readStock(t, target)
		return stock.Figures.Returned >= int64(n)
	})
	return stock
}

// someOutcomes compares two providers, and drops the reports that it receives.
type someOutcomes struct{}

func (someOutcomes) Reported(string, captcha.Type, string, bool) {}

func (someOutcomes) Rows(time.Time) []outcomes.Row {
	return []outcomes.Row{
		{Provider: "solver", Type: captcha.HCaptcha, Share: 0.25, Cost: 0.0012, Solved: 0.9, Accepted: 0.8, Ended: 60, Reports: 40, LeadP50: 18 * time.Second, LeadP90: 30 * time.Second},
		{Provider: "solver", Type: captcha.Turnstile, Share: 0.5, Cost: -1, Solved: 0.95, Ended: 9},
	}
}

func (someOutcomes) Changes() []outcomes.Change {
	return []outcomes.Change{{Type: captcha.HCaptcha, From: "other", To: "solver", At: day, Reason: "other: 31 % of hcaptcha rejected in the last 60"}}
}
