package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"poold/internal/captcha"
	"poold/internal/compat"
	"poold/internal/httpapi/delivery"
	"poold/internal/ondemand/dedup"
	"poold/internal/pool"
	"poold/internal/pool/pooltest"
	"poold/internal/provider"
	"poold/internal/purchase"
	"poold/internal/redisdb"
	"poold/internal/redisdb/redistest"
	"poold/internal/refill"
	"poold/internal/status"
	"poold/internal/targets"
	"poold/internal/testkit"
)

func TestMain(m *testing.M) {
	redis.SetLogger(silence{})
	// net/http closes a connection half a second after an answer that did not wait
	// for the whole body, which is longer than goleak does.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// silence drops the log of go-redis, which has a line for each dial that a test breaks.
type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

// fakeConfig holds a Set in memory.
type fakeConfig struct {
	set      atomic.Pointer[targets.Set]
	problems []targets.Problem // of the last attempt
	refused  bool              // because of them
	reload   func(ctx context.Context) error

	mu sync.Mutex // held while the problems change
}

// refuse has the last attempt fail because of these problems; of none it was good.
func (f *fakeConfig) refuse(problems ...targets.Problem) {
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

func (f *fakeConfig) Reload(ctx context.Context) error { return f.reload(ctx) }

// watchedStock is the real store on an embedded server. It notes the calls, and a test may
// make a call fail or hold it up.
type watchedStock struct {
	*pooltest.Store
	redis *redistest.Bubble
	// before runs before a call of that name goes to the store; its error answers
	// instead. nil = nothing.
	before func(ctx context.Context, call string) error
	// taken runs between a token's leaving the store and the answer. nil = nothing.
	taken func(ctx context.Context)
	short bool                           // surveys lack one target
	away  error                          // the error of the first target in surveys; nil = none
	ill   atomic.Pointer[redisdb.Health] // the result of Health; nil = the real one
	crowd *crowd                         // the result of surveys; nil = the real one

	mu       sync.Mutex
	calls    []string // their names
	requests []pool.Request
	queries  []pool.Query // of the last survey
	orders   atomic.Int64 // numbers them
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

// guard makes a call unless the test breaks it.
func (w *watchedStock) guard(ctx context.Context, call string, do func() error) error {
	if err := w.called(ctx, call); err != nil {
		return err
	}
	return do()
}

// guarded is guard for a call with a result.
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

func (w *watchedStock) Survey(ctx context.Context, queries []pool.Query) ([]pool.Stock, error) {
	w.mu.Lock()
	w.queries = queries
	w.mu.Unlock()
	if err := w.called(ctx, "survey"); err != nil {
		return nil, err
	}
	if w.crowd != nil {
		return w.crowd.survey(queries), nil
	}
	stocks, err := w.Store.Survey(ctx, queries)
	if w.short && err == nil {
		stocks = stocks[1:]
	}
	if w.away != nil && err == nil {
		stocks[0] = pool.Stock{Err: w.away}
	}
	return stocks, err
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

func (w *watchedStock) Warm(ctx context.Context, id captcha.ID, window pool.Window, limit pool.WindowLimit) error {
	return w.guard(ctx, "warm", func() error { return w.Store.Warm(ctx, id, window, limit) })
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

// asked returns how many takes there were and the last of them.
func (w *watchedStock) asked() (int, pool.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.requests) == 0 {
		return 0, pool.Request{}
	}
	return len(w.requests), w.requests[len(w.requests)-1]
}

// count returns how many calls there were, or how many of these names.
func (w *watchedStock) count(names ...string) int {
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

// breaks makes calls of a name fail; nil mends them.
func (w *watchedStock) breaks(name string, err error) {
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

// runStore opens a store, which works until the test ends.
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

// repeated repeats a call whose answer did not come within the store's second, because
// the machine had better things to do.
func repeated[T any](call func() (T, error)) (got T, err error) {
	for range 10 {
		if got, err = call(); !errors.Is(err, redisdb.ErrDown) {
			break
		}
	}
	return got, err
}

// order places an order for a target.
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

// land lands an order's token, 120 s of life less its age. Its text is tokenValue
// and the order's id, since a service that sells a text twice is found out.
func (w *watchedStock) land(t testing.TB, ref pool.Ref, age time.Duration) {
	t.Helper()
	w.landText(t, ref, tokenValue+"-"+ref.Order, age)
}

// landText lands a token of this text.
func (w *watchedStock) landText(t testing.TB, ref pool.Ref, value string, age time.Duration) {
	t.Helper()
	how, err := repeated(func() (pool.Ending, error) {
		return w.Settle(t.Context(), pool.Landing{
			Ref: ref, Provider: "solver", Task: "t-" + ref.Order, Value: value, SincePlaced: -age, Lifetime: 120 * time.Second, Lead: 18 * time.Second,
		})
	})
	if err != nil || how == pool.Stolen || how == pool.Repeated { // Gone: a call before did it
		t.Fatalf("landing %s: %v, %v", ref, how, err)
	}
}

// look returns the stock of a target.
func (w *watchedStock) look(t testing.TB, target *targets.Target) pool.Stock {
	t.Helper()
	stock, err := repeated(func() (pool.Stock, error) { return w.Look(t.Context(), target.ID, target.Margin, 0) })
	noError(t, err)
	return stock
}

// putBack returns the stock after n tokens were returned to it.
func (w *watchedStock) putBack(t *testing.T, target *targets.Target, n int) (stock pool.Stock) {
	t.Helper()
	testkit.Within(t, 5*time.Second, "tokens that nobody received are back", func() bool {
		stock = w.look(t, target)
		return stock.Figures.Returned >= int64(n)
	})
	return stock
}

type fakeRefill struct {
	mu       sync.Mutex
	statuses map[string]refill.Status
	kicked   []captcha.ID
}

func (f *fakeRefill) Refresh(context.Context) error { return nil }

func (f *fakeRefill) Status(name string) (refill.Status, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now, ok := f.statuses[name]
	return now, ok
}

func (f *fakeRefill) Current(_ context.Context, name string) (refill.Status, bool) {
	return f.Status(name)
}

func (f *fakeRefill) Kick(id captcha.ID) { f.kicked = append(f.kicked, id) }

// fakeBuyer answers with the fields that a test sets, and notes its calls.
type fakeBuyer struct {
	providers func(ctx context.Context, at time.Time) []purchase.Status
	booked    func() (used, perDay int, err error)
	guests    func() (hour, day int, err error) // used of their budget
	callback  func() error
	letters   []purchase.DeadLetter
	unread    error // why not all of them are known
	aside     int
	stranded  []purchase.Stranded
	underWay  []purchase.UnderWay
	unlisted  error // why these are not known
	replay    func(ctx context.Context) (purchase.Replayed, error)

	mu        sync.Mutex
	probed    []string
	probe     func(name string) (purchase.Status, error)
	callbacks []purchase.Callback
	reports   []passed
}

// passed is a report as the buyer got it.
type passed struct {
	provider, task string
	kind           captcha.Type
	age            time.Duration
	accepted       bool
}

func (f *fakeBuyer) Providers(ctx context.Context, at time.Time) []purchase.Status {
	return f.providers(ctx, at)
}

func (f *fakeBuyer) Booked(context.Context) (used, perDay int, err error) { return f.booked() }

func (f *fakeBuyer) BookedForGuests(context.Context) (hour, day int, err error) { return f.guests() }

func (f *fakeBuyer) Probe(_ context.Context, name string) (purchase.Status, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.probed = append(f.probed, name)
	return f.probe(name)
}

func (f *fakeBuyer) Stranded() []purchase.Stranded { return f.stranded }

func (f *fakeBuyer) UnderWay(context.Context) ([]purchase.UnderWay, error) {
	return slices.Clone(f.underWay), f.unlisted
}

func (f *fakeBuyer) Callback(_ context.Context, c purchase.Callback) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.callbacks = append(f.callbacks, c)
	return f.callback()
}

func (f *fakeBuyer) Report(provider, task string, t captcha.Type, age time.Duration, accepted bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reports = append(f.reports, passed{provider, task, t, age, accepted})
}

func (f *fakeBuyer) DeadLetters() ([]purchase.DeadLetter, error) { return f.letters, f.unread }

func (f *fakeBuyer) DeadLetterCount() int     { return len(f.letters) }
func (f *fakeBuyer) DeadLettersSetAside() int { return f.aside }

func (f *fakeBuyer) Replay(ctx context.Context) (purchase.Replayed, error) { return f.replay(ctx) }

// fakeGuests are what all guests hold together.
type fakeGuests struct {
	stock pool.GuestStock
	err   error
}

func (f *fakeGuests) Survey(context.Context) (pool.GuestStock, error) { return f.stock, f.err }

// fakeSavings are the requests of the last days.
type fakeSavings struct {
	days []dedup.SavingsDay
	err  error
}

func (f *fakeSavings) Days(context.Context) ([]dedup.SavingsDay, error) { return f.days, f.err }

// day is a moment with milliseconds, so that their loss would show.
var day = time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)

// The keys of the tests; none may be in a log or an answer.
const (
	keyAll     = "canary-key-all-scopes"
	keyStaging = "canary-key-staging-only"
	keyStatus  = "canary-key-status-only"
)

// triesAMinute is how many wrong keys of an address, or reports of a key on unknown tokens,
// are answered in a minute.
const triesAMinute = 20

// tokenValue begins each token of the tests; it may be in token answers alone.
const tokenValue = "canary-token-03AFcWeA"

// daemon is a Server behind a real listener, and all that it depends on.
type daemon struct {
	*Server

	config   *fakeConfig
	stock    *watchedStock
	refill   *fakeRefill
	buyer    *fakeBuyer
	provider purchase.Status // the answer of the buyer
	guests   *fakeGuests
	savings  *fakeSavings
	solver   *fakeSolver
	list     *fakeList
	history  *memoryHistory
	audit    *memoryAudit
	arrivals *fakeArrivals
	addr     string
	client   *http.Client
	logged   *testkit.Log
}

// sampleSet is a file with three targets and the given keys.
func sampleSet(keys ...targets.Key) *targets.Set {
	target := func(name string) targets.Target {
		identity := captcha.Identity{Type: captcha.RecaptchaV2, Sitekey: "6LeIxAcTAAAAAJcZVRqyHh71UMIEGNQ_MXjiZKhI", Pageurl: "https://" + name + ".example.com/"}
		return targets.Target{
			Name: name, Identity: identity, ID: identity.ID(), Depth: 5, Refill: targets.RefillFixed,
			Lifetime: 120 * time.Second, Margin: 40 * time.Second, OnEmpty: targets.OnEmptyFail, Owner: "qa@example.com",
		}
	}
	login := target("staging-login")
	login.Refill = targets.RefillAdaptive
	login.Budget = targets.Budget{PerHour: 10, PerDay: 500}
	signup := target("staging-signup")
	signup.Budget = targets.Budget{PerDay: 20}
	return &targets.Set{
		Server:    targets.Server{Listen: "127.0.0.1:8080", Keys: keys, BodyBudget: 256 << 20},
		Redis:     targets.Redis{URL: "redis://127.0.0.1:6379", Prefix: "captcha"},
		Providers: []targets.Provider{{Name: "solver", API: targets.APILegacy, Profile: "generic", Concurrency: 20, CallbackURL: "https://poold.example.com"}},
		Targets:   []targets.Target{target("checkout"), login, signup},
		History:   targets.History{Backend: targets.HistoryPostgres, Keep: 90 * 24 * time.Hour, Audit: 30 * 24 * time.Hour},
	}
}

// allKeys are one key for everything, one for staging alone, one for looking.
func allKeys() []targets.Key {
	all := []targets.Scope{targets.ScopeToken, targets.ScopeSolve, targets.ScopeStatus, targets.ScopeAdmin}
	return []targets.Key{
		{Name: "all", SHA256: sha256.Sum256([]byte(keyAll)), Scopes: all},
		{Name: "staging", SHA256: sha256.Sum256([]byte(keyStaging)), Scopes: all, Targets: []string{"staging-*"}},
		{Name: "looker", SHA256: sha256.Sum256([]byte(keyStatus)), Scopes: []targets.Scope{targets.ScopeStatus}},
	}
}

// wrapped is a listener that wraps its connections.
type wrapped struct {
	net.Listener
	wrap func(net.Conn) net.Conn
}

func (l wrapped) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.wrap(conn), nil
}

// start serves a daemon until the test ends. wrap may replace the connections below the
// counting ones, and server may change the limits; both may be nil.
func start(t testing.TB, set *targets.Set, wrap func(net.Conn) net.Conn, server func(*http.Server)) *daemon {
	t.Helper()
	d := &daemon{
		config: &fakeConfig{reload: func(context.Context) error { return nil }},
		stock:  openStock(t),
		refill: &fakeRefill{statuses: map[string]refill.Status{}},
		provider: purchase.Status{
			Name: "solver", State: provider.State{Kind: provider.StateOK}, InFlight: 3, Concurrency: 20,
		},
		guests: &fakeGuests{}, savings: &fakeSavings{}, solver: &fakeSolver{}, list: &fakeList{}, history: &memoryHistory{}, audit: &memoryAudit{}, arrivals: &fakeArrivals{},
		client: &http.Client{Transport: &http.Transport{}, Timeout: 10 * time.Second,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		logged: &testkit.Log{},
	}
	d.config.set.Store(set)
	for _, target := range set.Targets {
		d.refill.statuses[target.Name] = refill.Status{Want: target.Depth, State: refill.OK, Lead: 18 * time.Second}
	}
	d.buyer = &fakeBuyer{
		providers: func(context.Context, time.Time) []purchase.Status { return []purchase.Status{d.provider} },
		booked:    func() (int, int, error) { return 0, 0, nil },
		guests:    func() (int, int, error) { return 0, 0, nil },
		callback:  func() error { return nil },
		probe: func(name string) (purchase.Status, error) {
			return purchase.Status{Name: name, State: provider.State{Kind: provider.StateOK}}, nil
		},
		replay: func(context.Context) (purchase.Replayed, error) { return purchase.Replayed{}, nil },
	}
	log := slog.New(slog.NewJSONHandler(d.logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	near := &compat.NearMisses{}
	tasks := compat.New(compat.NewRecords(d.stock.DB), d.stock, d.solver, log)
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- tasks.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		noError(t, <-ran)
	})
	metrics := NewMetrics("1.2.3", "abcdef0")
	collector := status.NewCollector(status.Sources{
		File: d.config, Stock: d.stock, Refill: d.refill, Purchases: d.buyer, DeadLetters: d.buyer,
		Guests: d.guests, Savings: d.savings, NearMisses: near, CallsPerToken: metrics.CallsPerToken, Log: log,
		RedisMode: "single", Version: "1.2.3", StartedAt: day,
	})
	feed := status.NewFeed(collector)
	d.Server = New(Deps{
		Config: d.config, Stock: d.stock, Refill: d.refill, Metrics: metrics, Buyer: d.buyer, Log: log,
		Solver: d.solver, Guests: d.list, Tasks: tasks, Near: near, History: d.history, Audit: d.audit, Auditor: d.audit, Arrivals: d.arrivals,
		Status: collector, Feed: feed,
	})
	feeding, starve := context.WithCancel(context.Background())
	var fed sync.WaitGroup
	fed.Go(func() { _ = feed.Run(feeding) })
	fed.Go(func() { _ = collector.Run(feeding) })
	t.Cleanup(func() { starve(); fed.Wait() })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	noError(t, err)
	d.addr = listener.Addr().String()
	if wrap != nil {
		listener = wrapped{listener, wrap}
	}
	srv := d.HTTPServer()
	if server != nil {
		server(srv)
	}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(delivery.CountListener(listener)) }()
	t.Cleanup(func() {
		d.client.CloseIdleConnections()
		noError(t, srv.Close())
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		for _, canary := range []string{"canary-key", "canary-token", "canary-query"} {
			if strings.Contains(d.logged.String(), canary) {
				t.Errorf("the log shows %s:\n%s", canary, d.logged)
			}
		}
	})
	return d
}

// fill gives a target n tokens.
func (d *daemon) fill(t testing.TB, name string, n int) {
	t.Helper()
	for range n {
		d.stock.land(t, d.stock.order(t, d.target(name)), 0)
	}
}

// target returns a target of the file.
func (d *daemon) target(name string) *targets.Target {
	set := d.config.Current()
	i := slices.IndexFunc(set.Targets, func(target targets.Target) bool { return target.Name == name })
	return &set.Targets[i]
}

// answer is a response that was read to its end.
type answer struct {
	asked   string // method and path
	status  int
	header  http.Header
	body    string
	closing bool // the server said that it closes the connection
}

// ask sends one request. Headers are "Name: value".
func (d *daemon) ask(t *testing.T, method, path string, headers ...string) answer {
	t.Helper()
	return d.send(t, method, path, nil, headers...)
}

func (d *daemon) send(t *testing.T, method, path string, body io.Reader, headers ...string) answer {
	t.Helper()
	response, err := d.client.Do(d.request(t, method, path, body, headers...))
	noError(t, err)
	defer func() { _ = response.Body.Close() }()
	read, err := io.ReadAll(response.Body)
	noError(t, err)
	return answer{method + " " + path, response.StatusCode, response.Header, string(read), response.Close}
}

func (d *daemon) request(t testing.TB, method, path string, body io.Reader, headers ...string) *http.Request {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "http://"+d.addr+path, body)
	noError(t, err)
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		if name == "Host" {
			request.Host = value
			continue
		}
		request.Header[http.CanonicalHeaderKey(name)] = append(request.Header[http.CanonicalHeaderKey(name)], value)
	}
	return request
}

func bearer(key string) string { return "Authorization: Bearer " + key }

// has checks the status of an answer, 0 = any, and that its body holds these parts.
func (a answer) has(t testing.TB, what string, status int, parts ...string) {
	t.Helper()
	if status != 0 && a.status != status {
		t.Errorf("%s: %.200s: status %d, want %d: %s", what, a.asked, a.status, status, a.body)
	}
	for _, part := range parts {
		if !strings.Contains(a.body, part) {
			t.Errorf("%s: %.200s: no %q in %d %s", what, a.asked, part, a.status, a.body)
		}
	}
}

// parsed is the JSON of an answer.
func parsed[T any](t testing.TB, a answer) (got T) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.body), &got); err != nil {
		t.Fatalf("%d %q: %v", a.status, a.body, err)
	}
	return got
}

// equal checks a value.
func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// noError ends the test on an error.
func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// write writes a text to a connection.
func write(t testing.TB, conn io.Writer, text string) {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
}
