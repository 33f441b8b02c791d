package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"poold/internal/crash"
	"poold/internal/daemontest"
	"poold/internal/events"
	"poold/internal/history/dynamotest"
	"poold/internal/httpapi"
	"poold/internal/httpapi/openapi/openapitest"
	"poold/internal/provider/simulatedtest"
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

// Other processes run the same test binary. The first of these environment variables makes the
// process a solving service, and contains the options as JSON. The second variable, with any value,
// makes the process a poold. The third variable names the point at which this poold kills itself
// (crashAt).
const (
	providerRole = "POOLD_TEST_PROVIDER"
	pooldRole    = "POOLD_TEST_POOLD"
	crashPoint   = "POOLD_TEST_CRASH"
)

// program is a way to run poold. It returns a command.
type program func(t testing.TB, args ...string) *exec.Cmd

// poold runs the test binary as poold, so that nothing else is compiled. The daemon has the race
// detector if the tests have it. The race detector runs in tests of one daemon that does many
// things at the same time, such as hand-outs, solves, reloads, callbacks, changes by operators and
// stops. Other tests count purchases while processes die, Redis is down or the service misbehaves.
// They look for lost money, not for races. These tests run without the race detector
// (testkit.WithoutRace), so that their many processes cost half as much.
func poold(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	return alone(os.Args[0], args)
}

// shipped runs the poold binary that users get. The first test that needs this binary builds it.
// shipped is for examples, and for tests that the race detector would make too slow.
func shipped(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	return alone(daemontest.Binary(t), args)
}

// alone returns a command with an environment of its own, which inherits only the variables below.
func alone(path string, args []string) *exec.Cmd {
	command := exec.Command(path, args...)
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "GORACE=halt_on_error=1 atexit_sleep_ms=0", pooldRole + "=yes"}
	return command
}

// described checks the responses of all poolds of the tests against openapi.yaml.
var described openapitest.Watch

// checking returns a transport that checks the responses of poolds.
func checking(t *http.Transport) http.RoundTripper { return described.Transport(t) }

func TestMain(m *testing.M) {
	if options := os.Getenv(providerRole); options != "" {
		os.Exit(playProvider(options))
	}
	if os.Getenv(pooldRole) != "" {
		crash.Arm(os.Getenv(crashPoint))
		main()
	}
	// Most tests wait for processes that wait for each other. So twice as many tests as processors
	// run at the same time, to keep the processors busy. More tests would only delay each other.
	flag.Parse()
	if most := flag.Lookup("test.parallel"); most.Value.String() == most.DefValue {
		_ = flag.Set(most.Name, strconv.Itoa(2*runtime.GOMAXPROCS(0)))
	}
	dynamotest.Credentials(func(name, value string) { _ = os.Setenv(name, value) })
	http.DefaultTransport = described.Transport(http.DefaultTransport)
	os.Exit(daemontest.Main(m))
}

// playProvider serves the simulated provider, prints its address and ends after SIGTERM.
func playProvider(options string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := simulatedtest.ListenAndServe(ctx, "127.0.0.1:0", options, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// startProvider runs the solving service as another process and returns its URL.
func startProvider(t testing.TB, o simulatedtest.Options) string {
	t.Helper()
	options, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), providerRole+"="+string(options))
	return daemontest.StartService(t, command)
}

func ledger(t testing.TB, provider string) simulatedtest.Ledger {
	t.Helper()
	var books simulatedtest.Ledger
	getJSON(t, provider+"/ledger", "", &books)
	return books
}

// crashAt returns an environment variable that makes a poold kill itself when it passes a point for
// the n-th time (internal/crash).
func crashAt(point string, n int) string { return fmt.Sprintf("%s=%s:%d", crashPoint, point, n) }

// process is a running poold.
type process struct {
	t       testing.TB
	command *exec.Cmd
	url     string
	key     string
	config  string

	output testkit.Log // stdout and stderr
	ended  chan error
}

// startPoold runs poold with its own configuration file and environment, and returns when poold is
// ready.
func startPoold(t testing.TB, config, key string, env ...string) *process {
	t.Helper()
	return startProgram(t, poold, config, key, env...)
}

// startProgram does the same as startPoold for one of the ways to run poold.
func startProgram(t testing.TB, poold program, config, key string, env ...string) *process {
	t.Helper()
	address := redistest.FreeAddress(t)
	p := &process{t: t, key: key, config: config, ended: make(chan error, 1)}
	p.url = "http://" + address
	described.Add(t, p.url)
	p.command = poold(t, "serve", "--config", config, "--listen", address, "--log-level", "debug")
	p.command.Env = append(p.command.Env, env...)
	p.command.Stdout, p.command.Stderr = &p.output, &p.output
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.ended <- p.command.Wait() }()
	t.Cleanup(func() {
		_ = p.command.Process.Kill()
		if t.Failed() {
			t.Logf("poold printed:\n%s", tail(p.output.String(), 8000))
		}
	})
	testkit.Within(t, 20*time.Second, "poold to be ready", func() bool {
		select {
		case err := <-p.ended:
			t.Fatalf("poold ended: %v\n%s", err, p.output.String())
		default:
		}
		response, err := http.Get(p.url + "/readyz")
		if err != nil {
			return false
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	return p
}

// stop sends SIGTERM, waits for the end of the process, and returns its error.
func (p *process) stop() error {
	p.t.Helper()
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	select {
	case err := <-p.ended:
		return err
	case <-time.After(15 * time.Second):
		p.t.Fatal("poold did not end within 15 s of SIGTERM")
		return nil
	}
}

// signal sends a signal.
func (p *process) signal(which syscall.Signal) {
	p.t.Helper()
	if err := p.command.Process.Signal(which); err != nil {
		p.t.Fatal(err)
	}
}

// waitForDeath waits until the process ends by itself.
func (p *process) waitForDeath(limit time.Duration) {
	p.t.Helper()
	select {
	case err := <-p.ended:
		p.t.Logf("poold ended: %v", err)
	case <-time.After(limit):
		p.t.Fatalf("poold lives after %v", limit)
	}
}

// metrics reads /metrics. It returns the sum over all series of each name, and each series as
// name{labels}.
func (p *process) metrics() map[string]float64 {
	p.t.Helper()
	request, err := http.NewRequest(http.MethodGet, p.url+"/metrics", nil)
	if err != nil {
		p.t.Fatal(err)
	}
	if p.key != "" {
		request.Header.Set("Authorization", "Bearer "+p.key)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	values := map[string]float64{}
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		series, text, ok := strings.Cut(lines.Text(), " ")
		value, err := strconv.ParseFloat(text, 64)
		if !ok || err != nil || strings.HasPrefix(series, "#") {
			continue
		}
		name, _, labelled := strings.Cut(series, "{")
		values[name] += value
		if labelled {
			values[series] = value
		}
	}
	return values
}

// balance checks that the figures of /metrics satisfy the equation of the ledger. It returns the
// number of bought tokens.
func (p *process) balance() int {
	p.t.Helper()
	var bought float64
	var books string
	defer func() {
		if p.t.Failed() {
			p.t.Log(books)
		}
	}()
	testkit.Within(p.t, 10*time.Second, "the ledger to balance", func() bool { // guests are read one after the other
		m := p.metrics()
		with := func(name, label string) (sum float64) {
			for series, value := range m {
				if strings.HasPrefix(series, name+"{") && strings.Contains(series, label) {
					sum += value
				}
			}
			return sum
		}
		outcome := func(of string) float64 { return with("poold_token_requests_total", `outcome="`+of+`"`) }
		underWay := with("poold_orders_in_flight", `state="bought"`) + with("poold_orders_in_flight", `state="unknown"`)
		sum := outcome("hit") + outcome("waited") - m["poold_tokens_returned_total"] + m["poold_tokens_expired_total"] +
			m["poold_orders_failed_total"] + m["poold_orders_lost_total"] + m["poold_tokens_discarded_total"] +
			m["poold_pool_tokens"] + underWay
		bought = m["poold_bought_total"]
		books = fmt.Sprintf("bought %v, accounted for %v: hit %v waited %v returned %v expired %v failed %v lost %v discarded %v fresh %v under way %v",
			bought, sum, outcome("hit"), outcome("waited"), m["poold_tokens_returned_total"], m["poold_tokens_expired_total"],
			m["poold_orders_failed_total"], m["poold_orders_lost_total"], m["poold_tokens_discarded_total"], m["poold_pool_tokens"], underWay)
		return sum == bought
	})
	return int(bought)
}

// target reads the part of the status about one target.
func (p *process) target(name string) targetStatus {
	p.t.Helper()
	var s targetStatus
	getJSON(p.t, p.url+"/pool/"+name, p.key, &s)
	return s
}

type targetStatus struct {
	Name, State, Reason                             string
	Depth, Want, Fresh, Waiting                     int
	InFlight                                        int `json:"in_flight"`
	Requests, Hits, Waited, Misses, Solved, Expired int64
	Failed, Returned, Lost, Bought, Discarded       int64
	Unknown                                         int
	HitRate                                         float64 `json:"hit_rate"`
	Credit                                          float64
}

// handout is the response to a request for a token.
type handout struct {
	ID, Target, Type, Token, Source, Provider string
	SolvedAt                                  time.Time `json:"solved_at"`
	ExpiresAt                                 time.Time `json:"expires_at"`
	TTLms                                     int64     `json:"ttl_ms"`
}

// take requests a token and returns the status code.
func (p *process) take(ctx context.Context, client *http.Client, target, query string, headers ...string) (handout, int, error) {
	body, code, err := p.request(ctx, client, "/pool/"+target+"/token"+query, "", headers...)
	if err != nil || code != http.StatusOK {
		return handout{}, code, err
	}
	var h handout
	return h, code, json.Unmarshal(body, &h)
}

// request sends a POST with the given body and headers. The argument headers contains names and
// values in turn. request returns the body and the status code of the response.
func (p *process) request(ctx context.Context, client *http.Client, path, body string, headers ...string) (answer []byte, code int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+path, strings.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	if p.key != "" {
		request.Header.Set("Authorization", "Bearer "+p.key)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err = io.ReadAll(response.Body)
	return answer, response.StatusCode, err
}

// order sends a request of an operator or a caller, and expects the given status.
func (p *process) order(method, path, body string, want int) {
	p.t.Helper()
	request, err := http.NewRequest(method, p.url+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	if p.key != "" {
		request.Header.Set("Authorization", "Bearer "+p.key)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		p.t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != want {
		p.t.Errorf("%s %s: %s, want %d", method, path, response.Status, want)
	}
}

func getJSON(t testing.TB, url, key string, into any) {
	t.Helper()
	request, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %v\n%s", url, response.Status, err, body)
	}
	if err := json.Unmarshal(body, into); err != nil {
		t.Fatalf("%s: %v\n%s", url, err, body)
	}
}

func tail(text string, most int) string {
	if len(text) > most {
		return "…" + text[len(text)-most:]
	}
	return text
}

// serverless is a configuration file whose daemon needs no other servers.
const serverless = `
providers: [{name: simulated, protocol: simulated, concurrency: 5}]
targets:
  login: {type: turnstile, sitekey: 1x00000000000000000000AA, pageurl: "https://example.com/", owner: qa@example.com, depth: 1}
`

// tells waits until a replica lists events of these kinds, and returns the kinds of all events, the newest first.
func (p *process) tells(kinds ...events.Kind) (all []events.Kind) {
	p.t.Helper()
	testkit.Within(p.t, 30*time.Second, fmt.Sprintf("the events %v", kinds), func() bool {
		var list httpapi.EventList
		getJSON(p.t, p.url+"/events?limit=1000", p.key, &list)
		all = nil
		for _, e := range list.Events {
			all = append(all, e.Kind)
		}
		return !slices.ContainsFunc(kinds, func(kind events.Kind) bool { return !slices.Contains(all, kind) })
	})
	return all
}
