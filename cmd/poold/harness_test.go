package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"poold/internal/crash"
	"poold/internal/daemontest"
	"poold/internal/events"
	"poold/internal/history/dynamotest"
	"poold/internal/httpapi"
	"poold/internal/provider/simulatedtest"
	"poold/internal/testkit"
)

// Other processes run the same test binary. The first of these environment variables, with any value,
// makes the process a poold. The second variable names the point at which this poold kills itself
// (crashAt).
const (
	pooldRole  = "POOLD_TEST_POOLD"
	crashPoint = "POOLD_TEST_CRASH"
)

// pooldEnvironment are the variables of a process that runs the test binary as poold, so that nothing
// else is compiled. The daemon has the race detector if the tests have it. The race detector runs in
// tests of one daemon that does many things at the same time, such as hand-outs, solves, reloads,
// callbacks, changes by operators and stops. Other tests count purchases while processes die, Redis is
// down or the service misbehaves. They look for lost money, not for races. These tests run without the
// race detector (testkit.WithoutRace), so that their many processes cost half as much.
var pooldEnvironment = []string{"PATH=" + os.Getenv("PATH"), "GORACE=halt_on_error=1 atexit_sleep_ms=0", pooldRole +
	"=yes"}

func TestMain(m *testing.M) {
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
	http.DefaultTransport = daemontest.Checking(http.DefaultTransport)
	os.Exit(daemontest.Main(m))
}

func ledger(t testing.TB, provider string) simulatedtest.Ledger {
	t.Helper()
	var books simulatedtest.Ledger
	getJSON(t, provider+"/ledger", "", &books)
	return books
}

// setFaults replaces the faults of a simulated service by a JSON list.
func setFaults(t testing.TB, provider, faults string) {
	t.Helper()
	request, err := http.NewRequest(http.MethodPut, provider+"/faults", strings.NewReader(faults))
	testkit.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	testkit.NoError(t, err)
	_ = response.Body.Close()
	testkit.Equal(t, "setting the faults", response.StatusCode, http.StatusNoContent)
}

// crashAt returns an environment variable that makes a poold kill itself when it passes a point for
// the n-th time (internal/crash).
func crashAt(point string, n int) string { return fmt.Sprintf("%s=%s:%d", crashPoint, point, n) }

// process is a running poold.
type process struct {
	*daemontest.Process

	t   testing.TB
	key string
}

// startPoold runs the test binary as poold with its own configuration file and environment, and returns when poold
// is ready.
func startPoold(t testing.TB, config, key string, env ...string) *process {
	t.Helper()
	return startProgram(t, os.Args[0], config, key, append(slices.Clone(pooldEnvironment), env...)...)
}

// startProgram does the same as startPoold for another program.
func startProgram(t testing.TB, binary, config, key string, env ...string) *process {
	t.Helper()
	o := daemontest.Settings{Binary: binary, File: config, Key: key, Env: env, Args: []string{"--log-level", "debug"},
		Client: http.DefaultClient}
	return &process{daemontest.Start(t, o), t, key}
}

// waitForDeath waits until the process ends by itself.
func (p *process) waitForDeath(limit time.Duration) {
	p.t.Helper()
	p.t.Logf("poold ended: %v", testkit.Receive(p.t, limit, "the end of poold", p.Ended))
}

// metrics reads /metrics. It returns the sum over all series of each name, and each series as
// name{labels}.
func (p *process) metrics() map[string]float64 {
	p.t.Helper()
	_, page := p.Call(http.MethodGet, "/metrics", "")
	values := map[string]float64{}
	for line := range strings.Lines(page) {
		series, text, ok := strings.Cut(strings.TrimSpace(line), " ")
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
			m["poold_orders_failed_total"] + m["poold_orders_lost_total"] + m["poold_tokens_flushed_total"] +
			m["poold_pool_tokens"] + underWay
		total, isRead := m["poold_bought_total"] // a busy Redis may not have answered yet
		bought = total
		books = fmt.Sprintf("bought %v, accounted for %v: hit %v waited %v returned %v expired %v failed %v lost %v "+
			"flushed %v fresh %v under way %v",
			bought, sum, outcome("hit"), outcome("waited"), m["poold_tokens_returned_total"], m["poold_tokens_expired_total"],
			m["poold_orders_failed_total"], m["poold_orders_lost_total"], m["poold_tokens_flushed_total"],
			m["poold_pool_tokens"], underWay)
		return isRead && sum == bought
	})
	return int(bought)
}

// target reads the part of the status about one target.
func (p *process) target(name string) targetStatus {
	p.t.Helper()
	var s targetStatus
	getJSON(p.t, p.URL+"/pool/"+name, p.key, &s)
	return s
}

type targetStatus struct {
	Name, State, Reason                                  string
	Depth, Want, Fresh, Waiting                          int
	InFlight                                             int `json:"in_flight"`
	Requests, Hits, Waited, Missed, Solved, Lost, Bought int64
}

// handout is the response to a request for a token.
type handout struct {
	ID, Target, Token, Provider string
	ExpiresAt                   time.Time `json:"expires_at"`
	TTLms                       int64     `json:"ttl_ms"`
}

// take requests a token and returns the status code.
func (p *process) take(ctx context.Context, client *http.Client, target, query string,
	headers ...string) (handout, int, error) {
	body, code, err := p.request(ctx, client, "/pool/"+target+"/token"+query, "", headers...)
	if err != nil || code != http.StatusOK {
		return handout{}, code, err
	}
	var h handout
	return h, code, json.Unmarshal(body, &h)
}

// request sends a POST with the given body and headers. The argument headers contains names and
// values in turn. request returns the body and the status code of the response.
func (p *process) request(ctx context.Context, client *http.Client, path, body string,
	headers ...string) (answer []byte, code int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL+path, strings.NewReader(body))
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
	if status, answer := p.Call(method, path, body); status != want {
		p.t.Errorf("%s %s: %d, want %d: %s", method, path, status, want, answer)
	}
}

func getJSON(t testing.TB, url, key string, into any) {
	t.Helper()
	request, err := http.NewRequest(http.MethodGet, url, nil)
	testkit.NoError(t, err)
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	var status int
	var body []byte
	testkit.Within(t, 30*time.Second, url+" to answer", func() bool { // on a busy machine a store may be slow
		response, err := http.DefaultClient.Do(request)
		testkit.NoError(t, err)
		defer func() { _ = response.Body.Close() }()
		body, err = io.ReadAll(response.Body)
		status = response.StatusCode
		return err == nil && status != http.StatusServiceUnavailable
	})
	if status != http.StatusOK {
		t.Fatalf("%s: %d\n%s", url, status, body)
	}
	if err := json.Unmarshal(body, into); err != nil {
		t.Fatalf("%s: %v\n%s", url, err, body)
	}
}

// serverless is a configuration file whose daemon needs no other servers.
const serverless = `
providers: [{name: simulated, protocol: simulated, concurrency: 5}]
targets:
  login: {type: turnstile, sitekey: 1x00000000000000000000AA, pageurl: "https://example.com/", owner: qa@example.com,
          depth: 1}
`

// tells waits until a replica lists events of these kinds, and returns the kinds of all events, the newest first.
func (p *process) tells(kinds ...events.Kind) (all []events.Kind) {
	p.t.Helper()
	testkit.Within(p.t, 30*time.Second, fmt.Sprintf("the events %v", kinds), func() bool {
		var list httpapi.EventList
		getJSON(p.t, p.URL+"/events?limit=1000", p.key, &list)
		all = nil
		for _, e := range list.Events {
			all = append(all, e.Kind)
		}
		return !slices.ContainsFunc(kinds, func(kind events.Kind) bool { return !slices.Contains(all, kind) })
	})
	return all
}
