package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"poold/internal/postgres/postgrestest"
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

// buying is the section of the configuration file that allows purchases for /solve.
const buying = `solve: {owner: qa@example.com, pages: ["https://example.com/*"], images: true, budget: {per_day: 100000}}`

// guest returns a body of POST /solve for an identity that no target has.
func guest(name string, more ...string) string {
	return fmt.Sprintf(`{"type":"turnstile","sitekey":"1x00000000000000000000AA","pageurl":"https://example.com/%s"%s}`, name, strings.Join(more, ""))
}

const sharing = `,"dedup":"identity"`

// solveAnswer is the response to POST /solve.
type solveAnswer struct {
	handout

	Solution map[string]string
	Code     string
	Detail   string
	Problems []string
}

// solve sends a POST /solve and returns the status code.
func (p *process) solve(ctx context.Context, client *http.Client, body string, headers ...string) (solveAnswer, int, error) {
	text, code, err := p.request(ctx, client, "/solve", body, append(headers, "Content-Type", "application/json")...)
	if err != nil {
		return solveAnswer{}, code, err
	}
	var a solveAnswer
	return a, code, json.Unmarshal(text, &a)
}

// solvers are concurrent callers of /solve. Each caller repeats its request until a living replica
// responds.
type solvers struct {
	mu       sync.Mutex
	sources  map[string]int
	tokens   map[string]int // number of callers by token
	failed   []string
	repeated int // requests that a replica could not serve; an order may have been placed for them
}

// ask runs n concurrent callers. Caller i sends body(i), and the callers use the replicas in turn.
func ask(t *testing.T, replicas []*process, n int, body func(i int) string, headers func(i int) []string) *solvers {
	t.Helper()
	c := &solvers{sources: map[string]int{}, tokens: map[string]int{}}
	client := &http.Client{Transport: checking(&http.Transport{MaxIdleConnsPerHost: n})}
	defer client.CloseIdleConnections()
	var callers sync.WaitGroup
	for i := range n {
		callers.Go(func() {
			for try := range 20 {
				a, code, err := replicas[(i+try)%len(replicas)].solve(t.Context(), client, body(i), headers(i)...)
				c.mu.Lock()
				if err != nil || a.Code == "store_down" || a.Code == "provider_down" { // a part is dead or too busy, so the retry goes to another replica
					c.repeated++
					c.mu.Unlock()
					time.Sleep(50 * time.Millisecond)
					continue
				}
				defer c.mu.Unlock()
				if code != http.StatusOK {
					c.failed = append(c.failed, fmt.Sprintf("%d %s: %s", code, a.Code, a.Detail))
					return
				}
				c.sources[a.Source]++
				c.tokens[a.Token]++
				return
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.failed = append(c.failed, "no replica answered")
		})
	}
	callers.Wait()
	return c
}

func same(body string) func(int) string { return func(int) string { return body } }

func noHeaders(int) []string { return nil }

// claimStore is a store of claims, with the crashes that are tested with this store.
type claimStore struct {
	redis, section func(t *testing.T) string // parts of the configuration file; nil = the usual part
	crashes        []string                  // crash points of internal/purchase; "" = no crash
}

func claimStores(t *testing.T) map[string]claimStore {
	server := postgrestest.Start(t)
	return map[string]claimStore{
		"redis": {crashes: []string{"", "placed", "stored", "settled"}},
		"a cluster": {crashes: []string{"stored"}, redis: func(t *testing.T) string {
			return "redis://" + strings.Join(redistest.Cluster(t), ",redis://")
		}},
		"postgres": {crashes: []string{"placed", "settled"}, section: func(t *testing.T) string {
			return fmt.Sprintf("\ndedup: {backend: postgres, url: %q}", server.Database(t))
		}},
	}
}

// For equal requests that share their solve, all replicas together buy only one solve. This holds
// even if the replica that solves is killed at any point.
func TestEqualSolvesBuyOne(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	for name, b := range claimStores(t) {
		for _, crash := range b.crashes {
			t.Run(name+"/killed when "+crash, func(t *testing.T) {
				t.Parallel()
				o := quick()
				o.Median, o.Sigma, o.Min, o.Max = 3*time.Second, 0, 3*time.Second, 3*time.Second
				with := terms{top: buying, timeout: "60s"}
				if b.section != nil {
					with.top += b.section(t)
				}
				if b.redis != nil {
					with.redis = b.redis(t)
				}
				w := newWorld(t, o, with)
				var env []string
				if crash != "" {
					env = append(env, crashAt(crash, 1))
				}
				first := w.start(t, env...)
				replicas := []*process{first, w.start(t), w.start(t)}
				// The first caller sends its request early, so that it already has the claim when
				// the other callers send their requests.
				begun := make(chan *solvers, 1)
				go func() { begun <- ask(t, replicas, 1, same(guest("shared", sharing)), noHeaders) }()
				time.Sleep(300 * time.Millisecond)
				c := ask(t, replicas, 60, same(guest("shared", sharing)), noHeaders)
				one := <-begun
				for _, part := range []*solvers{c, one} {
					if len(part.failed) > 0 {
						t.Fatalf("%d callers got nothing, the first one: %s", len(part.failed), part.failed[0])
					}
				}
				for token := range one.tokens {
					if len(one.tokens) != 1 || len(c.tokens) != 1 || c.tokens[token] != 60 {
						t.Errorf("the callers got %d different tokens", len(c.tokens))
					}
				}
				if sold := ledger(t, w.provider).Totals.Submitted; sold != 1 {
					t.Errorf("%d solves were bought for 61 equal requests", sold)
				}
				if c.sources["shared"] < 55 {
					t.Errorf("sources: %v", c.sources)
				}
			})
		}
	}
}

// For each request that shares nothing, one solve is bought, even if many solves fail. Exactly one
// request gets the error of each failure.
func TestFailedSolves(t *testing.T) {
	t.Parallel()
	o := quick()
	o.FailShare = 0.4
	w := newWorld(t, o, terms{top: buying, timeout: "60s"})
	replicas := []*process{w.start(t), w.start(t), w.start(t)}
	c := ask(t, replicas, 100, same(guest("own")), noHeaders)
	testkit.Within(t, 20*time.Second, "the books to balance", func() bool {
		return replicas[0].balance() == ledger(t, w.provider).Totals.Submitted
	})
	sold := ledger(t, w.provider).Totals
	told := slices.DeleteFunc(slices.Clone(c.failed), func(reason string) bool { return !strings.HasPrefix(reason, "502 solve_failed") })
	between := func(n, from int) bool { return n >= from && n <= from+c.repeated }
	if len(told) != len(c.failed) || !between(sold.Failed, len(told)) || !between(sold.Solved, len(c.tokens)) ||
		!between(sold.Submitted, 100) || sold.Failed < 20 {
		t.Errorf("for 100 calls and %d repetitions %d solves were bought, of which %d failed; %d calls were told so, %d got a token; %.3q",
			c.repeated, sold.Submitted, sold.Failed, len(told), len(c.tokens), c.failed)
	}
}

// For requests with the same Idempotency-Key, only one solve is bought, whether they are sent at
// the same time or after a kill.
func TestRepeatedSolveBuysOne(t *testing.T) {
	t.Parallel()
	o := quick()
	o.Median, o.Sigma, o.Min, o.Max = 2*time.Second, 0, 2*time.Second, 2*time.Second
	w := newWorld(t, o, terms{top: buying, timeout: "60s"})
	replicas := []*process{w.start(t, crashAt("bought", 1)), w.start(t), w.start(t)}
	key := func(int) []string { return []string{"Idempotency-Key", "job 4711"} }
	begun := make(chan *solvers, 1)
	go func() { begun <- ask(t, replicas, 1, same(guest("repeated")), key) }()
	time.Sleep(200 * time.Millisecond)
	c := ask(t, replicas, 25, same(guest("repeated")), key)
	one := <-begun
	again := ask(t, replicas, 24, same(guest("repeated")), key)
	for _, part := range []*solvers{one, c, again} {
		if len(part.failed) > 0 || len(part.tokens) != 1 {
			t.Errorf("%d failed %.3q, %d different tokens", len(part.failed), part.failed, len(part.tokens))
		}
	}
	if again.sources["replay"] != 24 {
		t.Errorf("sources: %v", again.sources)
	}
	if sold := ledger(t, w.provider).Totals.Submitted; sold != 1 {
		t.Errorf("%d solves were bought for 50 repeats", sold)
	}
}

// If a sharer hangs up, the other sharers get the bought token. If no sharer is left, the next caller
// gets it.
func TestSharersHangUp(t *testing.T) {
	t.Parallel()
	o := quick()
	o.Median, o.Sigma, o.Min, o.Max = 2*time.Second, 0, 2*time.Second, 2*time.Second
	w := newWorld(t, o, terms{top: buying, timeout: "60s"})
	replicas := []*process{w.start(t), w.start(t), w.start(t)}
	hangUp := func(n int, name string, after time.Duration) {
		ctx, cancel := context.WithTimeout(t.Context(), after)
		defer cancel()
		var callers sync.WaitGroup
		for i := range n {
			callers.Go(func() {
				if _, code, err := replicas[i%3].solve(ctx, http.DefaultClient, guest(name, sharing)); err == nil {
					t.Errorf("a caller that hung up was answered %d", code)
				}
			})
		}
		callers.Wait()
	}
	left := make(chan struct{})
	go func() { hangUp(1, "one", time.Second); close(left) }()
	time.Sleep(200 * time.Millisecond)
	if c := ask(t, replicas, 60, same(guest("one", sharing)), noHeaders); len(c.failed) > 0 || len(c.tokens) != 1 {
		t.Errorf("after the first one left: %d failed %.3q, %d tokens", len(c.failed), c.failed, len(c.tokens))
	}
	<-left
	hangUp(60, "all", time.Second)
	time.Sleep(2500 * time.Millisecond)
	a, code, err := replicas[0].solve(t.Context(), http.DefaultClient, guest("all", sharing))
	// The token is in the pool, or the claim has already taken it although no caller waits for the
	// claim.
	if err != nil || code != http.StatusOK || a.Source != "pool" && a.Source != "solve" {
		t.Errorf("the next call: %d %q, %v", code, a.Source, err)
	}
	testkit.Within(t, 20*time.Second, "the books to balance", func() bool { return replicas[0].balance() == 2 })
	if sold := ledger(t, w.provider).Totals.Submitted; sold != 2 {
		t.Errorf("%d solves were bought for two identities", sold)
	}
}

// Eight replicas together keep the budget of /solve, even if some replicas are killed while they
// place an order.
func TestSolveBudgetHolds(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	w := newWorld(t, quick(), terms{top: `solve: {owner: qa@example.com, pages: ["https://example.com/*"], budget: {per_day: 20}}`})
	var replicas []*process
	for i := range 8 {
		var env []string
		if i < 2 {
			env = append(env, crashAt("placed", 2))
		}
		replicas = append(replicas, w.start(t, env...))
	}
	c := ask(t, replicas, 80, func(i int) string { return guest(fmt.Sprint(i), `,"timeout":"20s"`) }, noHeaders)
	sold := ledger(t, w.provider).Totals.Submitted
	if sold > 20 || len(c.tokens) > 20 {
		t.Errorf("%d solves were bought with a budget of 20", sold)
	}
	// Orders of the killed replicas use a part of the budget until other replicas remove them, so
	// not every caller is served.
	if len(c.tokens) == 0 {
		t.Errorf("no caller was served; %d failed", len(c.failed))
	}
	if others := slices.DeleteFunc(c.failed, func(reason string) bool { return strings.HasPrefix(reason, "503 budget_exhausted") }); len(others) > 0 {
		t.Errorf("%d callers were answered otherwise, the first one: %s", len(others), others[0])
	}
}

// After a reload, a guest has become a target. Its earlier counts stay with the guests, and the
// target counts only later events. No counter decreases, even when the target is removed.
func TestAGuestBecomesATarget(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick(), terms{top: buying})
	p := w.start(t)
	if _, code, err := p.solve(t.Context(), http.DefaultClient, guest("new")); err != nil || code != http.StatusOK {
		t.Fatalf("%d, %v", code, err)
	}
	file, err := os.ReadFile(w.config)
	if err != nil {
		t.Fatal(err)
	}
	last := map[string]float64{}
	bought := func(target string) float64 { // -1 = the target is not in the metrics
		for name, value := range p.metrics() {
			if counter := strings.Contains(name, "_total{"); counter && strings.Contains(name, `target="/solve"`) {
				if value < last[name] {
					t.Errorf("%s went back from %v to %v", name, last[name], value)
				}
				last[name] = value
			}
		}
		if value, ok := p.metrics()[fmt.Sprintf("poold_bought_total{target=%q}", target)]; ok {
			return value
		}
		return -1
	}
	testkit.Within(t, 20*time.Second, "the metrics to have the guest", func() bool { return bought("/solve") == 1 })
	writeFile(t, w.config, string(file)+"  new: {type: turnstile, sitekey: 1x00000000000000000000AA, pageurl: \"https://example.com/new\", owner: qa@example.com, depth: 0}\n")
	testkit.Within(t, 20*time.Second, "the target", func() bool { return bought("new") >= 0 })
	if of, guests := bought("new"), bought("/solve"); of != 0 || guests != 1 {
		t.Errorf("the target begins with %v, the guests have %v", of, guests)
	}
	if a, code, err := p.solve(t.Context(), http.DefaultClient, guest("new")); err != nil || code != http.StatusOK || a.Target != "new" {
		t.Errorf("%d %+v, %v", code, a.Target, err)
	}
	testkit.Within(t, 20*time.Second, "the target to count what comes", func() bool { return bought("new") == 1 && p.balance() == 2 })

	writeFile(t, w.config, string(file))
	testkit.Within(t, 20*time.Second, "the target to go", func() bool { return bought("new") < 0 })
	if a, code, err := p.solve(t.Context(), http.DefaultClient, guest("new")); err != nil || code != http.StatusOK || a.Target != "" {
		t.Errorf("%d %+v, %v", code, a.Target, err)
	}
	if n := bought("/solve"); n < 1 {
		t.Errorf("the guests have %v", n)
	}
	p.balance()
}

// With on_empty: solve, tokens are bought for callers until the budget is used up. Later callers
// are refused immediately. The callers whose orders are in flight still get their tokens.
func TestOnEmptySolveWithoutABudget(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick(), terms{target: `, on_empty: solve, budget: {per_day: 3}`})
	p := w.start(t)
	began := time.Now()
	var served, refused atomic.Int64
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			body, code, err := p.request(t.Context(), http.DefaultClient, "/pool/login/token", "")
			switch {
			case err == nil && code == http.StatusOK:
				served.Add(1)
			case err == nil && code == http.StatusServiceUnavailable && strings.Contains(string(body), "budget_exhausted"):
				refused.Add(1)
			default:
				t.Errorf("%d %s, %v", code, body, err)
			}
		})
	}
	callers.Wait()
	if served.Load() != 3 || refused.Load() != 5 {
		t.Errorf("%d were served, %d refused", served.Load(), refused.Load())
	}
	if a, code, err := p.solve(t.Context(), http.DefaultClient, guest("")); err != nil || code != http.StatusServiceUnavailable || a.Code != "budget_exhausted" {
		t.Errorf("POST /solve: %d %+v, %v", code, a, err)
	}
	if _, _, err := p.request(t.Context(), http.DefaultClient, "/pool/login/pause", ""); err != nil {
		t.Fatal(err)
	}
	if body, code, err := p.request(t.Context(), http.DefaultClient, "/pool/login/token", ""); err != nil || code != http.StatusServiceUnavailable || !strings.Contains(string(body), `"paused"`) {
		t.Errorf("paused: %d %s, %v", code, body, err)
	}
	if took := time.Since(began); took > 30*time.Second { // a wait until the timeout would take a minute
		t.Errorf("it took %v", took)
	}
	p.balance()
}

// While PostgreSQL is away, a caller that wants to share gets an error within a second. All other
// requests continue. When the server returns, callers can share again. If a table was dropped, the
// error names the table, and `poold history init` recreates it. A start fails if the schema is newer.
func TestPostgresGoesAway(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	server := postgrestest.Start(t)
	address := server.Database(t)
	w := newWorld(t, quick(), terms{depth: 3, top: buying + fmt.Sprintf("\ndedup: {backend: postgres, url: %q}", address)})
	p := w.start(t)
	shared := func() int {
		_, code, err := p.solve(t.Context(), http.DefaultClient, guest("shared", sharing))
		if err != nil {
			t.Fatal(err)
		}
		return code
	}
	// On a busy machine the database may need more time than the start of the daemon waits.
	testkit.Within(t, 20*time.Second, "a shared solve", func() bool { return shared() == http.StatusOK })
	server.Kill(t)
	quickly := false // on a busy machine, several attempts may be necessary
	for range 5 {
		began := time.Now()
		a, code, err := p.solve(t.Context(), http.DefaultClient, guest("away", sharing))
		if err != nil || code != http.StatusServiceUnavailable || a.Code != "store_down" || strings.Contains(a.Detail, "redis") {
			t.Fatalf("while it is away: %d %+v, %v", code, a, err)
		}
		quickly = quickly || time.Since(began) < time.Second
	}
	if !quickly {
		t.Error("no caller was told within a second")
	}
	if _, code, err := p.solve(t.Context(), http.DefaultClient, guest("own")); err != nil || code != http.StatusOK {
		t.Errorf("a solve of its own: %d, %v", code, err)
	}
	if _, code, err := p.take(t.Context(), http.DefaultClient, "login", "?wait=20s"); err != nil || code != http.StatusOK {
		t.Errorf("a take: %d, %v", code, err)
	}
	server.Up(t)
	testkit.Within(t, 20*time.Second, "sharing to go on", func() bool { return shared() == http.StatusOK })

	// The daemon creates missing tables when it connects to the server.
	testkit.Within(t, 20*time.Second, "the server to be watched", func() bool {
		return server.SQL(t, address, "select count(*) > 0 from pg_stat_activity where query like '-- ping%' and pid <> pg_backend_pid()") == "t"
	})
	server.SQL(t, address, "drop table captcha_cache")
	a, code, err := p.solve(t.Context(), http.DefaultClient, guest("dropped", sharing))
	if err != nil || code != http.StatusServiceUnavailable || a.Code != "store_down" ||
		!strings.Contains(a.Detail, "the table captcha_cache does not exist: poold history init makes it") {
		t.Errorf("without the table: %d %+v, %v", code, a, err)
	}
	if output, err := poold(t, "history", "init", "--config", w.config).CombinedOutput(); err != nil || string(output) != "the tables of dedup.url are ready\n" {
		t.Errorf("preparing: %v\n%s", err, output)
	}
	if code := shared(); code != http.StatusOK {
		t.Errorf("a shared solve once the table is back: %d", code)
	}

	server.SQL(t, address, "insert into poold_schema (version_id, is_applied) values (9999, true)")
	output, err := poold(t, "serve", "--config", w.config, "--listen", "127.0.0.1:0").CombinedOutput()
	if err == nil || !strings.Contains(string(output), "schema is newer") || strings.Contains(string(output), address) {
		t.Errorf("a start on a newer schema: %v\n%s", err, output)
	}
}
