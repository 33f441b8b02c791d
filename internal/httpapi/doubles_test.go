package httpapi

import (
	"context"
	"encoding/json"
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
	"poold/internal/history"
	"poold/internal/history/historytest"
	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/purchase/choice"
	"poold/internal/redisdb"
	"poold/internal/redisdb/redistest"
	"poold/internal/refill"
	"poold/internal/spool"
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

// record is a list that the daemon appends to and the test reads.
type record[T any] struct {
	mu   sync.Mutex
	list []T
}

func (r *record[T]) add(value T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, value)
}

func (r *record[T]) all() []T {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.list)
}

func (r *record[T]) last() T {
	list := r.all()
	return list[len(list)-1]
}

type fakeConfig struct {
	set      atomic.Pointer[targets.Set]
	problems []targets.Problem // problems of the last attempt to load the file
	refused  bool              // the problems made the load fail
	reload   func(ctx context.Context) error
}

func (f *fakeConfig) Current() *targets.Set { return f.set.Load() }

func (f *fakeConfig) Status() targets.FileStatus {
	return targets.FileStatus{LoadedAt: day, OK: !f.refused, Problems: f.problems}
}

func (f *fakeConfig) Reload(ctx context.Context, _ string) error { return f.reload(ctx) }

// watchedStock is the real pool on an embedded server. watchedStock records the calls. A test can
// make a call fail or delay it.
type watchedStock struct {
	*pool.Pool
	redis *redistest.Bubble
	db    *redisdb.DB
	// before is called with the name of each call, before the call goes to the pool. If
	// before returns an error, the call fails with this error. nil = no-op.
	before func(ctx context.Context, call string) error
	// taken is called after the pool has removed a token and before the take returns.
	// nil = no-op.
	taken  func(ctx context.Context)
	counts *pool.Counts                   // the result of Counts; nil = the real one
	ill    atomic.Pointer[redisdb.Health] // the result of Health; nil = the real one

	calls  record[string] // names of the calls
	takes  record[pool.Call]
	orders atomic.Int64 // number of orders so far
}

func (w *watchedStock) called(ctx context.Context, call string) error {
	w.calls.add(call)
	if w.before == nil {
		return nil
	}
	return w.before(ctx, call)
}

func (w *watchedStock) Take(ctx context.Context, c *pool.Call) (pool.Token, error) {
	w.takes.add(*c)
	if err := w.called(ctx, "take"); err != nil {
		return pool.Token{}, err
	}
	token, err := w.Pool.Take(ctx, c)
	if err == nil && w.taken != nil {
		w.taken(ctx)
	}
	return token, err
}

func (w *watchedStock) Cancel(c *pool.Call) {
	_ = w.called(context.Background(), "return")
	w.Pool.Cancel(c)
}

func (w *watchedStock) Counts(ctx context.Context, q pool.Query) (pool.Counts, error) {
	if err := w.called(ctx, "look"); err != nil {
		return pool.Counts{}, err
	}
	if w.counts != nil {
		return *w.counts, nil
	}
	return w.Pool.Counts(ctx, q)
}

func (w *watchedStock) Stocks(ctx context.Context, queries []pool.Query) ([]pool.Stock, error) {
	if err := w.called(ctx, "survey"); err != nil {
		return nil, err
	}
	return w.Pool.Stocks(ctx, queries)
}

func (w *watchedStock) Health() redisdb.Health {
	if said := w.ill.Load(); said != nil {
		return *said
	}
	return w.db.Health()
}

func (w *watchedStock) Report(ctx context.Context, order string, hash captcha.ID, accepted bool, caller, nonce,
	row string) (pool.Effect, pool.Sale, error) {
	if err := w.called(ctx, "report"); err != nil {
		return 0, pool.Sale{}, err
	}
	return w.Pool.Report(ctx, order, hash, accepted, caller, nonce, row)
}

// countCalls returns the number of calls with these names. Without names, it returns the number of
// all calls.
func (w *watchedStock) countCalls(names ...string) (n int) {
	for _, call := range w.calls.all() {
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

// openStock opens a pool on an embedded server that runs until the test ends.
func openStock(t testing.TB) *watchedStock {
	t.Helper()
	redis, log := redistest.Embedded(t), slog.New(slog.DiscardHandler)
	db, err := redisdb.Open(redisdb.Options{Addresses: "redis://embedded", Prefix: "captcha", Dial: redis.Dial, Log: log})
	testkit.NoError(t, err)
	p := pool.New(pool.Config{
		Slow: db.Fast, Fast: db.Fast, Prefix: "captcha", Replica: "r1", Log: log, Away: db.Away,
	})
	t.Cleanup(func() { testkit.NoError(t, db.Close()) })
	beaten, once := make(chan struct{}), sync.Once{}
	testkit.Run(t, db.Run, func(ctx context.Context) error {
		return p.Run(ctx, func([]string) { once.Do(func() { close(beaten) }) })
	})
	<-beaten // a ticket of a replica without a beat counts as one of a dead replica
	return &watchedStock{Pool: p, redis: redis, db: db}
}

// repeated makes a call again while the call fails with ErrDown, because on a busy machine a call
// may exceed its limit of a second.
func repeated[T any](call func() (T, error)) (got T, err error) {
	for range 10 {
		if got, err = call(); !errors.Is(err, pool.ErrDown) {
			break
		}
	}
	return got, err
}

// order places an order of a target, and submits it.
func (w *watchedStock) order(t testing.TB, target *targets.Target) *pool.Order {
	t.Helper()
	o := &pool.Order{
		Name: fmt.Sprintf("o%d", w.orders.Add(1)), ID: target.ID, Account: "solver", Key: "solver-key", Life: 5 * time.Minute,
		Concurrency: 1 << 20, Depth: 1 << 20, Price: -1,
	}
	_, err := repeated(func() (time.Time, error) { at, _, err := w.Place(t.Context(), o); return at, err })
	testkit.NoError(t, err)
	_, err = repeated(func() (bool, error) { return w.Begin(t.Context(), o.Name, "n") })
	testkit.NoError(t, err)
	return o
}

// landToken lands the token of an order. The remaining life of the token is 120 s minus the given
// age. The text of the token contains the order's id, because the pool detects repeated texts.
func (w *watchedStock) landToken(t testing.TB, o *pool.Order, age time.Duration) {
	t.Helper()
	w.landText(t, o, tokenValue+"-"+o.Name, age)
}

func (w *watchedStock) landText(t testing.TB, o *pool.Order, value string, age time.Duration) {
	t.Helper()
	w.end(t, o, pool.End{
		Outcome: pool.Solved, Provider: "solver", Task: "t-" + o.Name, Value: value, BornAfter: -age,
		Lifetime: 120 * time.Second,
		Margin:   40 * time.Second, Lead: 18 * time.Second,
	})
}

func (w *watchedStock) end(t testing.TB, o *pool.Order, e pool.End) {
	t.Helper()
	how, err := repeated(func() (pool.Outcome, error) { how, _, err := w.End(t.Context(), o, &e); return how, err })
	// pool.Gone means that an earlier attempt has ended the order
	if err != nil || how == pool.Other || how == pool.Repeated {
		t.Fatalf("ending %s: %v, %v", o.Name, how, err)
	}
}

func (w *watchedStock) readStock(t testing.TB, target *targets.Target) pool.Counts {
	t.Helper()
	counts, err := repeated(func() (pool.Counts, error) {
		return w.Pool.Counts(t.Context(), pool.Query{ID: target.ID, Margin: target.Margin})
	})
	testkit.NoError(t, err)
	return counts
}

// putBack waits until n tokens are back in the stock, and then returns the state of the stock.
func (w *watchedStock) putBack(t *testing.T, target *targets.Target, n int) (counts pool.Counts) {
	t.Helper()
	testkit.Within(t, 20*time.Second, "tokens without a receiver are back", func() bool {
		counts = w.readStock(t, target)
		return counts.Counters.Returned >= int64(n)
	})
	return counts
}

// say makes a target have a status, as if the last decision about it had found it.
func (d *daemon) say(t testing.TB, name string, note refill.Status) {
	t.Helper()
	target := d.target(name)
	text, err := json.Marshal(note)
	testkit.NoError(t, err)
	d.stock.redis.HSet(key("stats", target), "status", string(text))
	d.stock.redis.Del(key("brake", target))
	now := time.Now().UnixMilli()
	switch note.State {
	case refill.Paused:
		d.stock.redis.HSet(key("brake", target), "paused", note.Reason, "resumes", "0")
	case refill.Refused:
		next := time.Now().Add(time.Minute)
		if !note.Until.IsZero() {
			next = note.Until
		}
		d.stock.redis.HSet(key("brake", target), "kind", string(pool.BadParameters), "reason", note.Reason, "since",
			fmt.Sprint(now), "count", "1", "every", "3600000", "next", fmt.Sprint(next.UnixMilli()))
	}
	d.Status.Changed()
}

// key returns a Redis key of a target; the package comment of pool lists the keys.
func key(what string, target *targets.Target) string {
	return "{captcha}:" + what + ":" + string(target.ID)
}

// someOutcomes compares two providers.
type someOutcomes struct{}

func (someOutcomes) Rows() []choice.Comparison {
	return []choice.Comparison{
		{Provider: "solver", Type: captcha.HCaptcha, Share: 0.25, Cost: 0.0012, Solved: 0.9, Accepted: 0.8, Ended: 60,
			Reports: 40, LeadP50: 18 * time.Second, LeadP90: 30 * time.Second},
		{Provider: "solver", Type: captcha.Turnstile, Share: 0.5, Cost: -1, Solved: 0.95, Ended: 9},
	}
}

// fakeBuyer is a Buyer whose results are its fields. fakeBuyer also records the calls.
type fakeBuyer struct {
	providers func(ctx context.Context) []purchase.ProviderStatus
	callback  func() error
	letters   []spool.Summary
	unread    error // error of DeadLetters; nil = all letters can be read
	underWay  []purchase.OrderInFlight
	unlisted  error // error of OrdersInFlight; nil = the orders are known
	replay    func(ctx context.Context) (map[string]int, error)

	probe     func(name string) error
	probed    record[string]
	callbacks record[purchase.Callback]
	reports   record[passedReport]
}

type passedReport struct {
	provider, task string
	kind           captcha.Type
	age            time.Duration
	accepted       bool
}

func (f *fakeBuyer) Providers(ctx context.Context) []purchase.ProviderStatus { return f.providers(ctx) }

func (f *fakeBuyer) Probe(_ context.Context, name string) error {
	f.probed.add(name)
	return f.probe(name)
}

func (f *fakeBuyer) OrdersInFlight(context.Context) ([]purchase.OrderInFlight, error) {
	return slices.Clone(f.underWay), f.unlisted
}

func (f *fakeBuyer) Callback(_ context.Context, c purchase.Callback) error {
	f.callbacks.add(c)
	return f.callback()
}

func (f *fakeBuyer) Report(provider, task string, t captcha.Type, age time.Duration, accepted bool) {
	f.reports.add(passedReport{provider, task, t, age, accepted})
}

func (f *fakeBuyer) DeadLetters() ([]spool.Summary, error) { return f.letters, f.unread }

func (f *fakeBuyer) DeadLetterCount() int { return len(f.letters) }

func (f *fakeBuyer) Replay(ctx context.Context) (map[string]int, error) { return f.replay(ctx) }

// fakeOrders buys nothing: the callers of a guest get an answer, or none.
type fakeOrders struct {
	pool   *watchedStock
	answer *pool.FailedError   // nil = callers wait
	begun  func(purchase.Spec) // called first for the order of a picture; nil = no-op

	specs record[purchase.Spec]
	tells sync.WaitGroup
}

// Guest implements solve.Refiller.
func (f *fakeOrders) Guest(s purchase.Spec) (release func()) {
	f.specs.add(s)
	f.tells.Go(func() { f.tell(s) })
	return func() {}
}

// tell answers the callers of a guest as soon as one waits.
func (f *fakeOrders) tell(s purchase.Spec) {
	for range 1000 {
		if f.answer == nil {
			return
		}
		if n, _ := f.pool.Refuse(context.Background(), s.ID, f.answer); n > 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// Buy is the Buy of a solve.Config.
func (f *fakeOrders) Buy(_ context.Context, s purchase.Spec, placed func(next captcha.ID, err error)) {
	f.specs.add(s)
	if f.begun != nil {
		f.begun(s)
	}
	f.tell(s)
	placed("", nil)
}

// memoryHistory is a history in memory that notes its queries.
type memoryHistory struct {
	*historytest.Memory

	asked record[history.Query]
	days  record[string]
	down  error // error of each query; nil = queries succeed
}

func newMemoryHistory() *memoryHistory {
	return &memoryHistory{Memory: historytest.NewMemory(ages, ages)}
}

// ages is a retention that is longer than the age of each row of a test.
const ages = 100 * 365 * 24 * time.Hour

func (m *memoryHistory) Find(ctx context.Context, q history.Query) (history.Page, error) {
	if m.asked.add(q); m.down != nil {
		return history.Page{}, m.down
	}
	return m.Memory.Find(ctx, q)
}

func (m *memoryHistory) Days(ctx context.Context, day time.Time) ([]history.Sum, error) {
	if m.days.add(day.Format(time.DateOnly)); m.down != nil {
		return nil, m.down
	}
	return m.Memory.Days(ctx, day)
}

// noted returns the hand-outs and reports that wait in Redis for the history, oldest first.
func (d *daemon) noted(t testing.TB) (list []history.Handout) {
	t.Helper()
	rows, _, err := d.stock.Rows(context.Background(), history.MostBatch)
	testkit.NoError(t, err)
	var page history.Page
	for i := range rows {
		if rows[i].Stream == pool.Handouts {
			row, err := history.RowOf(&rows[i])
			testkit.NoError(t, err)
			page.Rows = append(page.Rows, row.Text)
		}
	}
	list, err = history.Decode[history.Handout](page)
	testkit.NoError(t, err)
	return list
}
