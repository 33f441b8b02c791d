package httpapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/provider"
	"poold/internal/purchase"
	"poold/internal/refill"
	"poold/internal/targets"
)

func TestMain(m *testing.M) {
	// net/http closes a connection half a second after an answer that did not wait
	// for the whole body, which is longer than goleak does.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// fakeConfig holds a Set in memory.
type fakeConfig struct {
	set      atomic.Pointer[targets.Set]
	problems []targets.Problem // of the last attempt
	refused  bool              // because of them
	reload   func(ctx context.Context) error
}

func (f *fakeConfig) Current() *targets.Set { return f.set.Load() }

func (f *fakeConfig) Status() targets.Status {
	return targets.Status{LoadedAt: day, OK: !f.refused, Problems: f.problems}
}

func (f *fakeConfig) Reload(ctx context.Context) error { return f.reload(ctx) }

// fakeStock answers with what a test puts into its fields, and notes what it
// was asked.
type fakeStock struct {
	take   func(ctx context.Context, r pool.Request) (pool.Token, error)
	survey func(ctx context.Context, queries []pool.Query) ([]pool.Stock, error)
	change func(id captcha.ID, pause bool) error
	flush  func(id captcha.ID, margin time.Duration) (int, error)
	warm   func(id captcha.ID, w pool.Window) error
	report func(id captcha.ID, token, caller string, accepted bool) (pool.Sale, error)
	down   atomic.Bool

	mu       sync.Mutex
	requests []pool.Request
	returned []pool.Token
	paused   []string // "pause ID" or "resume ID"
	surveys  atomic.Int32
}

func (f *fakeStock) Take(ctx context.Context, r pool.Request) (pool.Token, error) {
	f.mu.Lock()
	f.requests = append(f.requests, r)
	f.mu.Unlock()
	return f.take(ctx, r)
}

func (f *fakeStock) Return(ctx context.Context, t pool.Token) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.returned = append(f.returned, t)
	return ctx.Err()
}

func (f *fakeStock) Survey(ctx context.Context, queries []pool.Query) ([]pool.Stock, error) {
	f.surveys.Add(1)
	return f.survey(ctx, queries)
}

func (f *fakeStock) Up() bool { return !f.down.Load() }

func (f *fakeStock) Pause(_ context.Context, id captcha.ID) error {
	f.paused = append(f.paused, "pause "+string(id))
	return f.change(id, true)
}

func (f *fakeStock) Resume(_ context.Context, id captcha.ID) error {
	f.paused = append(f.paused, "resume "+string(id))
	return f.change(id, false)
}

func (f *fakeStock) Warm(_ context.Context, id captcha.ID, w pool.Window) error { return f.warm(id, w) }

func (f *fakeStock) Flush(_ context.Context, id captcha.ID, margin time.Duration) (int, error) {
	return f.flush(id, margin)
}

func (f *fakeStock) Report(ctx context.Context, id captcha.ID, token, caller string, accepted bool) (pool.Sale, error) {
	sale, err := f.report(id, token, caller, accepted)
	if ctx.Err() != nil {
		return pool.Sale{}, ctx.Err()
	}
	return sale, err
}

// asked returns how many takes there were and the last of them.
func (f *fakeStock) asked() (int, pool.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.requests) == 0 {
		return 0, pool.Request{}
	}
	return len(f.requests), f.requests[len(f.requests)-1]
}

func (f *fakeStock) givenBack() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.returned)
}

type fakeRefill struct {
	mu     sync.Mutex
	notes  map[string]refill.Note
	kicked []captcha.ID
}

func (f *fakeRefill) Note(name string) (refill.Note, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	note, ok := f.notes[name]
	return note, ok
}

func (f *fakeRefill) Kick(id captcha.ID) { f.kicked = append(f.kicked, id) }

// fakeDesk answers with what a test puts into its fields, and notes what it
// was told.
type fakeDesk struct {
	providers func(ctx context.Context, at time.Time) []purchase.Status
	booked    func() (used, perDay int, err error)
	callback  func() error
	letters   []purchase.Letter
	unread    error // why not all of them are known
	aside     int
	replay    func(ctx context.Context) (purchase.Replayed, error)

	mu        sync.Mutex
	callbacks []purchase.Callback
	reports   []passed
}

// passed is a report as the desk got it.
type passed struct {
	provider, task string
	kind           captcha.Type
	age            time.Duration
	accepted       bool
}

func (f *fakeDesk) Providers(ctx context.Context, at time.Time) []purchase.Status {
	return f.providers(ctx, at)
}

func (f *fakeDesk) Booked(context.Context) (used, perDay int, err error) { return f.booked() }

func (f *fakeDesk) Callback(_ context.Context, c purchase.Callback) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.callbacks = append(f.callbacks, c)
	return f.callback()
}

func (f *fakeDesk) Report(provider, task string, t captcha.Type, age time.Duration, accepted bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reports = append(f.reports, passed{provider, task, t, age, accepted})
}

func (f *fakeDesk) Letters() ([]purchase.Letter, error) { return f.letters, f.unread }

func (f *fakeDesk) LetterCount() int     { return len(f.letters) }
func (f *fakeDesk) LettersSetAside() int { return f.aside }

func (f *fakeDesk) Replay(ctx context.Context) (purchase.Replayed, error) { return f.replay(ctx) }

// day is a moment with milliseconds, so that their loss would show.
var day = time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)

// The keys of the tests; none may be in a log or an answer.
const (
	keyAll     = "canary-key-all-scopes"
	keyStaging = "canary-key-staging-only"
	keyStatus  = "canary-key-status-only"
)

// tokenValue is the token of the tests; it may be in token answers alone.
const tokenValue = "canary-token-03AFcWeA" //nolint:gosec // made up

// daemon is a Server behind a real listener, and all that it depends on.
type daemon struct {
	*Server
	config   *fakeConfig
	stock    *fakeStock
	refill   *fakeRefill
	desk     *fakeDesk
	provider purchase.Status // what the desk tells
	addr     string
	client   *http.Client
	logged   *logBuffer
}

// logBuffer is a writer for a logger of several goroutines.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
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
		Server:    targets.Server{Listen: "127.0.0.1:8080", Keys: keys},
		Redis:     targets.Redis{URL: "redis://127.0.0.1:6379", Prefix: "captcha"},
		Providers: []targets.Provider{{Name: "solver", API: targets.APILegacy, Profile: "generic", Concurrency: 20, CallbackURL: "https://poold.example.com"}},
		Targets:   []targets.Target{target("checkout"), login, signup},
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

// start serves a daemon until the test ends. wrap may change the listener
// under the counting one, and server the limits; both may be nil.
func start(t *testing.T, set *targets.Set, wrap func(net.Listener) net.Listener, server func(*http.Server)) *daemon {
	t.Helper()
	d := &daemon{
		config: &fakeConfig{reload: func(context.Context) error { return nil }},
		stock:  &fakeStock{},
		refill: &fakeRefill{notes: map[string]refill.Note{}},
		provider: purchase.Status{
			Name: "solver", State: provider.State{Kind: provider.StateOK}, InFlight: 3, Concurrency: 20,
		},
		client: &http.Client{Transport: &http.Transport{}, Timeout: 10 * time.Second,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		logged: &logBuffer{},
	}
	d.config.set.Store(set)
	for _, target := range set.Targets {
		d.refill.notes[target.Name] = refill.Note{Want: target.Depth, State: refill.OK, Lead: 18 * time.Second}
	}
	d.stock.take = func(context.Context, pool.Request) (pool.Token, error) { return sampleToken(), nil }
	d.stock.survey = func(_ context.Context, queries []pool.Query) ([]pool.Stock, error) {
		return make([]pool.Stock, len(queries)), nil
	}
	d.stock.change = func(captcha.ID, bool) error { return nil }
	d.stock.flush = func(captcha.ID, time.Duration) (int, error) { return 0, nil }
	d.stock.warm = func(captcha.ID, pool.Window) error { return nil }
	d.stock.report = func(captcha.ID, string, string, bool) (pool.Sale, error) { return pool.Sale{}, nil }
	d.desk = &fakeDesk{
		providers: func(context.Context, time.Time) []purchase.Status { return []purchase.Status{d.provider} },
		booked:    func() (int, int, error) { return 0, 0, nil },
		callback:  func() error { return nil },
		replay:    func(context.Context) (purchase.Replayed, error) { return purchase.Replayed{}, nil },
	}
	d.Server = New(Deps{
		Config: d.config, Stock: d.stock, Refill: d.refill, Metrics: NewMetrics("1.2.3", "abcdef0"),
		Desk: d.desk,
		Log:  slog.New(slog.NewJSONHandler(d.logged, &slog.HandlerOptions{Level: slog.LevelDebug})), RedisMode: "single",
		Version: "1.2.3", StartedAt: day,
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // a loopback listener of a test
	if err != nil {
		t.Fatal(err)
	}
	d.addr = listener.Addr().String()
	if wrap != nil {
		listener = wrap(listener)
	}
	srv := d.HTTPServer()
	if server != nil {
		server(srv)
	}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(CountListener(listener)) }()
	t.Cleanup(func() {
		d.client.CloseIdleConnections()
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
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

func sampleToken() pool.Token {
	return pool.Token{
		ID: "tok1", Value: tokenValue, Provider: "solver", Born: day, Dies: day.Add(120 * time.Second),
		TTL: 78123 * time.Millisecond, Source: pool.FromPool,
	}
}

// answer is a response that was read to its end.
type answer struct {
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
	request, err := http.NewRequestWithContext(t.Context(), method, "http://"+d.addr+path, body)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		if name == "Host" {
			request.Host = value
			continue
		}
		request.Header[http.CanonicalHeaderKey(name)] = append(request.Header[http.CanonicalHeaderKey(name)], value)
	}
	response, err := d.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	read, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{status: response.StatusCode, header: response.Header, body: string(read), closing: response.Close}
}

func bearer(key string) string { return "Authorization: Bearer " + key }
