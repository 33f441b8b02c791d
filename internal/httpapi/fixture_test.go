package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
	"poold/internal/compat"
	"poold/internal/httpapi/openapi/openapitest"
	"poold/internal/listener"
	"poold/internal/pool/tokenid"
	"poold/internal/provider"
	"poold/internal/purchase"
	"poold/internal/refill"
	"poold/internal/replicas"
	"poold/internal/solve"
	"poold/internal/status"
	"poold/internal/targets"
	"poold/internal/testkit"
)

// day is a time with milliseconds, so that a test fails if the milliseconds are lost.
var day = time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)

// These are the keys of the tests. No log and no response may contain a key.
const (
	keyAll     = "canary-key-all-scopes"
	keyStaging = "canary-key-staging-only"
	keyStatus  = "canary-key-status-only"
)

// tokenValue is the prefix of each token in the tests. Only responses with a token may contain this
// prefix.
const tokenValue = "canary-token-03AFcWeA"

// described checks all responses to the clients of the tests against openapi.yaml.
var described openapitest.Watch

// daemon is a Server behind a real listener, with all its dependencies.
type daemon struct {
	*Server

	config   *fakeConfig
	stock    *watchedStock
	buyer    *fakeBuyer
	provider purchase.ProviderStatus // state that the buyer reports
	solver   *fakeSolver
	orders   *fakeOrders
	ids      *tokenid.Secret
	history  *memoryHistory
	events   *memoryEvents
	addr     string
	client   *http.Client
	logged   *testkit.Log
}

// sampleSet returns a Set with three targets and the given keys.
func sampleSet(keys ...targets.Key) *targets.Set {
	target := func(name string) targets.Target {
		identity := captcha.Identity{Type: captcha.RecaptchaV2, Sitekey: "6LeIxAcTAAAAAJcZVRqyHh71UMIEGNQ_MXjiZKhI",
			Pageurl: "https://" + name + ".example.com/"}
		return targets.Target{
			Name: name, Identity: identity, ID: identity.ID(), Depth: 5, Refill: targets.RefillFixed,
			Lifetime: 120 * time.Second, Margin: 40 * time.Second, OnEmpty: targets.OnEmptyFail, Owner: "qa@example.com",
		}
	}
	login := target("staging-login")
	login.Refill, login.HitRate = targets.RefillAdaptive, 0.97
	login.Budget = targets.Budget{PerHour: 10, PerDay: 500}
	signup := target("staging-signup")
	signup.Budget = targets.Budget{PerDay: 20}
	return &targets.Set{
		Server: targets.Server{Listen: "127.0.0.1:8080", Keys: keys},
		Redis:  targets.Redis{URL: "redis://127.0.0.1:6379", Prefix: "captcha"},
		Providers: []targets.Provider{
			{Name: "solver", Protocol: targets.ProtocolInPHP, Concurrency: 20, CallbackURL: "https://poold.example.com"}},
		Targets: []targets.Target{target("checkout"), login, signup},
		History: targets.History{Backend: targets.HistoryPostgres, Keep: 90 * 24 * time.Hour, Audit: 30 * 24 * time.Hour},
	}
}

// allKeys returns three keys: a key for everything, a key for the staging targets, and a key that
// may only read the status.
func allKeys() []targets.Key {
	all := []targets.Scope{targets.ScopeToken, targets.ScopeSolve, targets.ScopeStatus, targets.ScopeAdmin}
	return []targets.Key{
		{Name: "all", SHA256: sha256.Sum256([]byte(keyAll)), Scopes: all},
		{Name: "staging", SHA256: sha256.Sum256([]byte(keyStaging)), Scopes: all, Targets: []string{"staging-*"}},
		{Name: "looker", SHA256: sha256.Sum256([]byte(keyStatus)), Scopes: []targets.Scope{targets.ScopeStatus}},
	}
}

type wrappedListener struct {
	net.Listener
	wrap func(net.Conn) net.Conn
}

func (l wrappedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.wrap(conn), nil
}

// assemble makes a daemon without a listener. The daemon works until the test ends. In a bubble its
// handler runs in the bubble's time.
func assemble(t testing.TB, set *targets.Set) *daemon {
	t.Helper()
	d := &daemon{
		config: &fakeConfig{reload: func(context.Context) error { return nil }},
		stock:  openStock(t),
		provider: purchase.ProviderStatus{
			Name: "solver", State: provider.Condition{Kind: provider.StateOK}, InFlight: 3, Concurrency: 20,
		},
		solver: &fakeSolver{}, history: newMemoryHistory(), events: &memoryEvents{},
		client: &http.Client{Transport: described.Transport(&http.Transport{}), Timeout: 10 * time.Second,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		logged: &testkit.Log{},
	}
	d.config.set.Store(set)
	d.buyer = &fakeBuyer{
		providers: func(context.Context) []purchase.ProviderStatus { return []purchase.ProviderStatus{d.provider} },
		callback:  func() error { return nil },
		probe:     func(string) error { return nil },
		replay:    func(context.Context) (map[string]int, error) { return nil, nil },
	}
	log := slog.New(slog.NewJSONHandler(d.logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	d.orders, d.solver.stock = &fakeOrders{pool: d.stock}, d.stock
	d.ids = tokenid.New(d.stock.db, "{captcha}:secret")
	d.solver.Solver = solve.New(solve.Config{
		Pool: d.stock.Pool, Buy: d.orders.Buy, Refiller: d.orders, Log: log,
	})
	tasks := compat.New(d.stock.Pool, d.solver.Solver, log)
	t.Cleanup(d.orders.tells.Wait)
	testkit.Run(t, d.solver.Run)
	metrics := NewMetrics("1.2.3", "abcdef0", "IABFZE2N (host:8080)", func() listener.Connections {
		return listener.Connections{Open: 3, Refused: 4}
	}, func() int64 { return 5 })
	collector := status.NewCollector(status.Sources{
		File: d.config, Pool: d.stock, Buyer: d.buyer, Outcomes: someOutcomes{}.Rows,
		Replicas: func() []replicas.Replica { return nil },
		Health:   d.stock.Health, Log: log,
		Webhook:   func() string { return "" },
		RedisMode: "single", Version: "1.2.3", StartedAt: day,
	})
	d.Server = New(Deps{
		Config: d.config, Pool: d.stock, Health: d.stock.Health, IDs: d.ids, Metrics: metrics, Buyer: d.buyer, Log: log,
		Solver: d.solver, Tasks: tasks, History: d.history, Audit: true,
		Status: collector, Events: d.events,
	})
	for _, target := range set.Targets {
		d.say(t, target.Name, refill.Status{Want: target.Depth, State: refill.OK, Lead: 18 * time.Second})
	}
	return d
}

// inBubble runs a test with a daemon in a synctest bubble. The clock starts at the constant day in
// 2026.
func inBubble(t *testing.T, set *targets.Set, tell func(t *testing.T, d *daemon)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(day))
		tell(t, assemble(t, set))
	})
}

// handle passes a request to the handler, without a network.
func (d *daemon) handle(t *testing.T, method, path, body string, headers ...string) answer {
	t.Helper()
	recorder, request := httptest.NewRecorder(), d.request(t, method, path, strings.NewReader(body), headers...)
	d.handler.ServeHTTP(recorder, request)
	response := recorder.Result()
	response.Request = request
	testkit.NoError(t, openapitest.Check(response, recorder.Body.Bytes()))
	return answer{asked: method + " " + path, status: recorder.Code, header: recorder.Header(),
		body: recorder.Body.String()}
}

// start serves a daemon until the test ends. The function wrap can replace the connections inside
// the counting connections, and the function server can change the limits. The functions wrap and
// server may be nil.
func start(t testing.TB, set *targets.Set, wrap func(net.Conn) net.Conn, server func(*http.Server)) *daemon {
	t.Helper()
	d := assemble(t, set)
	port, err := listener.Listen(t.Context(), "127.0.0.1:0", 1<<20, slog.New(slog.DiscardHandler))
	testkit.NoError(t, err)
	d.addr = port.Addr().String()
	described.Add(t, "http://"+d.addr)
	if wrap != nil {
		port.Listener = wrappedListener{port.Listener, wrap}
	}
	srv := d.HTTPServer()
	if server != nil {
		server(srv)
	}
	done := make(chan error, 1)
	go func() {
		if srv.TLSConfig != nil {
			done <- srv.ServeTLS(port, "", "")
			return
		}
		done <- srv.Serve(port)
	}()
	t.Cleanup(func() {
		d.client.CloseIdleConnections()
		testkit.NoError(t, srv.Close())
		testkit.ErrorIs(t, "serving", <-done, http.ErrServerClosed)
		for _, canary := range []string{"canary-key", "canary-token", "canary-query"} {
			if strings.Contains(d.logged.String(), canary) {
				t.Errorf("the log shows %s:\n%s", canary, d.logged)
			}
		}
	})
	return d
}

func (d *daemon) fill(t testing.TB, name string, n int) {
	t.Helper()
	for range n {
		d.stock.landToken(t, d.stock.order(t, d.target(name)), 0)
	}
}

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
	closing bool // the server announced the end of the connection
}

// ask sends one request. The format of headers is "Name: value".
func (d *daemon) ask(t *testing.T, method, path string, headers ...string) answer {
	t.Helper()
	return d.send(t, method, path, nil, headers...)
}

func (d *daemon) send(t *testing.T, method, path string, body io.Reader, headers ...string) answer {
	t.Helper()
	response, err := d.client.Do(d.request(t, method, path, body, headers...))
	testkit.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	read, err := io.ReadAll(response.Body)
	testkit.NoError(t, err)
	return answer{method + " " + path, response.StatusCode, response.Header, string(read), response.Close}
}

func (d *daemon) request(t testing.TB, method, path string, body io.Reader, headers ...string) *http.Request {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "http://"+d.addr+path, body)
	testkit.NoError(t, err)
	request.Header.Set("X-Request-Id", "test") // so that equal responses have equal bodies
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

// check reports a test failure unless a response has this status (0 = any) and the body contains
// these parts.
func (a answer) check(t testing.TB, what string, status int, parts ...string) {
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

// checkRetry reports a test failure unless a response has a Retry-After of this many seconds. If most is 0, it must
// have none.
func (a answer) checkRetry(t testing.TB, what string, least, most int) {
	t.Helper()
	text := a.header.Get("Retry-After")
	if n, err := strconv.Atoi(text); most > 0 && (err != nil || n < least || n > most) || most == 0 && text != "" {
		t.Errorf("%s: Retry-After %q, want %d to %d", what, text, least, most)
	}
}

func parseAnswer[T any](t testing.TB, a answer) (got T) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.body), &got); err != nil {
		t.Fatalf("%d %q: %v", a.status, a.body, err)
	}
	return got
}

func write(t testing.TB, conn io.Writer, text string) {
	t.Helper()
	_, err := io.WriteString(conn, text)
	testkit.NoError(t, err)
}
