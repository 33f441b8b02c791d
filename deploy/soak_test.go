//go:build soak

package deploy_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"poold/internal/daemontest"
	"poold/internal/provider/simulatedtest"
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

const (
	// soakConfig needs the address of Redis and the URLs of two solving services.
	soakConfig = `
server: {keys: [{name: tests, key: rolling-key-012345, scopes: [token, solve, status, admin]}]}
redis: {url: "redis://%s"}
providers:
  - {name: main, profile: captchaai, url: "%s", key: a-key, price_per_1000: 1, concurrency: 500, first_poll: 300ms, poll_interval: 300ms, timeout: 6s}
  - {name: spare, profile: captchaai, url: "%s", key: a-key, price_per_1000: 1, concurrency: 500, first_poll: 300ms, poll_interval: 300ms, timeout: 6s}
defaults: {owner: qa@example.com}
solve: {pages: ["https://staging.example.com/*"], budget: {per_day: 1000}}
targets:
  login: {` + page + `login, depth: 60}
`
	// extra is a target that reloads add and remove.
	extra = "  extra: {" + page + "extra, depth: 5}\n"
)

// soak is a group of replicas under load, whose environment fails in turn.
type soak struct {
	testing.TB
	config      string
	main, spare string              // the URLs of the solving services
	stable      *daemontest.Process // runs until the end
	guest       *daemontest.Process // comes and goes
	taken       map[string]bool     // hashes of the tokens that callers took; books removes those that were sold

	network *toxiproxy.Proxy // between the replicas and Redis
	redis   string           // the address of the master behind the network
	process *os.Process
	folder  string // of the master's append-only file
}

// TestSoak runs replicas under load for 30 s, or the duration in the environment variable SOAK, while
// their environment fails in turn (scripts/soak). Afterwards the figures of poold equal the books of the solving
// services, and poold and Redis have not grown.
func TestSoak(t *testing.T) {
	t.Parallel()
	duration, err := time.ParseDuration(cmp.Or(os.Getenv("SOAK"), "30s"))
	if err != nil {
		t.Fatal(err)
	}
	s := newSoak(t)
	b := &balancer{t: t, outages: true}
	b.watch(s.stable.URL)
	b.watch(s.guest.URL)
	load := &steadyLoad{t: t, url: b.serve() + "/pool/login/token?wait=10s", tokens: map[string]bool{}}
	run := func(d time.Duration, during func(ctx context.Context)) {
		ctx, stop := context.WithTimeout(t.Context(), d)
		defer stop()
		var callers sync.WaitGroup
		for range 20 {
			callers.Go(func() { load.call(ctx, 400*time.Millisecond) })
		}
		during(ctx)
		callers.Wait()
		s.rest()
	}
	run(3*time.Second, func(ctx context.Context) { <-ctx.Done() })
	before, keys := usageOf(t, s.stable), s.keys()
	run(duration, s.failInTurn)

	s.taken = maps.Clone(load.tokens)
	s.balance()
	if len(s.taken) > 0 {
		t.Errorf("%d tokens were handed out that no service sold", len(s.taken))
	}
	after := usageOf(t, s.stable)
	defer func() { t.Logf("%d takes; before %+v, after %+v", len(load.tokens), before, after) }()
	testkit.Within(t, 40*time.Second, "the replica to be as small as before", func() bool {
		after = usageOf(t, s.stable)
		return after.Goroutines <= before.Goroutines+30 && after.Files <= before.Files+30 && after.Heap <= before.Heap+8<<20
	})
	if n := s.keys(); n > keys+30 {
		t.Errorf("Redis has %d keys beside those of perOrder, and had %d", n, keys)
	}
}

// call takes one token after the other until ctx ends, with pauses. The number of callers is fixed:
// after an outage, callers who all repeat their requests would otherwise be a second fault.
func (l *steadyLoad) call(ctx context.Context, pause time.Duration) {
	client := &http.Client{Timeout: 30 * time.Second}
	for ctx.Err() == nil {
		if !l.take(client) {
			l.again.Add(1)
		}
		time.Sleep(pause)
	}
}

func newSoak(t *testing.T) *soak {
	t.Helper()
	s := &soak{TB: t, folder: t.TempDir()}
	s.redis, s.process = redistest.Process(t, s.append()...)
	s.network = toxiproxy.NewProxy(toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()), "redis", "127.0.0.1:0", s.redis)
	if err := s.network.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.network.Stop)
	o := simulatedtest.Options{Median: 500 * time.Millisecond, Sigma: 0.3, Max: 2 * time.Second, LedgerHTTP: true, FailShare: 0.02}
	s.main, s.spare = daemontest.Provider(t, o), daemontest.Provider(t, o)
	s.config = fmt.Sprintf(soakConfig, s.network.Listen, s.main, s.spare)
	s.stable, s.guest = s.start(""), s.start("")
	return s
}

// append returns the options of a Redis whose append-only file is in the folder.
func (s *soak) append(options ...string) []string {
	return append(append(options, noDelay...), "--appendonly", "yes", "--dir", s.folder)
}

func (s *soak) start(listen string) *daemontest.Process {
	return daemontest.Start(s.TB, daemontest.Options{Config: s.config, Key: "rolling-key-012345", Listen: listen})
}

// failInTurn causes one fault after the other until ctx ends.
func (s *soak) failInTurn(ctx context.Context) {
	pause := func(d time.Duration) {
		select {
		case <-ctx.Done():
		case <-time.After(d):
		}
	}
	for {
		for _, fail := range []func(){
			s.fault(simulatedtest.Fault{On: simulatedtest.Submit, Kind: simulatedtest.Code, Code: "ERROR_NO_SLOT_AVAILABLE"}),
			s.cut(func() { pause(time.Second) }),
			s.reload(extra),
			s.fault(simulatedtest.Fault{On: simulatedtest.Poll, Kind: simulatedtest.Drop}, simulatedtest.Fault{On: simulatedtest.Submit, Kind: simulatedtest.Drop, Accepted: true, Share: 0.3}),
			s.cut(s.restart),
			s.replace,
			s.fault(simulatedtest.Fault{On: simulatedtest.Poll, Kind: simulatedtest.Slow, Share: 0.5}),
			s.reload(""),
			s.cut(s.failOver),
			s.fault(simulatedtest.Fault{On: simulatedtest.Submit, Kind: simulatedtest.Code, Code: "ERROR_WRONG_USER_KEY"}),
		} {
			fail()
			pause(1500 * time.Millisecond)
			setFaults(s, s.main)
			if pause(300 * time.Millisecond); ctx.Err() != nil {
				return
			}
		}
	}
}

func (s *soak) fault(faults ...simulatedtest.Fault) func() {
	return func() { setFaults(s, s.main, faults...) }
}

// reload returns a function that replaces the files of both replicas.
func (s *soak) reload(more string) func() {
	return func() {
		s.stable.Write(s.config + more)
		s.guest.Write(s.config + more)
	}
}

// replace stops a replica and starts another one at its address.
func (s *soak) replace() {
	if err := s.guest.Stop(); err != nil {
		s.Error(err)
	}
	s.guest = s.start(s.guest.URL[len("http://"):])
}

// cut returns a function that cuts the network to Redis while another function runs.
func (s *soak) cut(during func()) func() {
	return func() {
		s.network.Stop()
		during()
		s.network.Upstream = s.redis
		if err := s.network.Start(); err != nil {
			s.Error(err)
		}
	}
}

// stopRedis stops the master.
func (s *soak) stopRedis() {
	if err := s.process.Signal(syscall.SIGTERM); err != nil {
		s.Fatal(err)
	}
	if _, err := s.process.Wait(); err != nil {
		s.Fatal(err)
	}
}

// restart stops Redis, and starts it from its append-only file.
func (s *soak) restart() {
	s.stopRedis()
	s.redis, s.process = redistest.Process(s, s.append()...)
}

// failOver starts a replica of Redis, makes it the master, and stops the former master.
func (s *soak) failOver() {
	folder := s.folder
	s.folder = s.TempDir()
	replica, process := redistest.Process(s, s.append("--replicaof", addressOf(s.redis))...)
	testkit.Within(s.TB, 20*time.Second, "a replica of Redis", func() bool {
		return strings.Contains(redistest.Do(s, replica, "INFO", "replication"), "master_link_status:up")
	})
	redistest.Do(s, s.redis, "FAILOVER")
	testkit.Within(s.TB, 20*time.Second, "the new master", func() bool {
		return strings.Contains(redistest.Do(s, replica, "INFO", "replication"), "role:master")
	})
	s.stopRedis()
	_ = os.RemoveAll(folder)
	s.redis, s.process = replica, process
}

// rest waits until no order is in flight and the pool is full.
func (s *soak) rest() {
	setFaults(s, s.main)
	s.stable.Call(http.MethodPost, "/providers/main/probe", "")
	testkit.Within(s.TB, 40*time.Second, "rest", func() bool {
		m := s.metrics()
		return m["poold_orders_in_flight"] == 0 && m[`poold_pool_tokens{target="login"}`] >= 60
	})
}

var soakSample = regexp.MustCompile(`(?m)^(poold_\w+)(\{.*\})? (\S+)$`)

// metrics returns the metrics of the stable replica, by series, and their sums by name.
func (s *soak) metrics() map[string]float64 {
	_, text := s.stable.Call(http.MethodGet, "/metrics", "")
	all := map[string]float64{}
	for _, line := range soakSample.FindAllStringSubmatch(text, -1) {
		value, err := strconv.ParseFloat(line[3], 64)
		if err != nil {
			s.Fatal(err)
		}
		all[line[1]] += value
		if line[2] != "" {
			all[line[1]+line[2]] = value
		}
	}
	return all
}

// perOrder matches the keys that exist for each order, token or event: the history, the events, and
// the tokens that may still be reported.
var perOrder = regexp.MustCompile(`^captcha:(orders|event):|^{captcha}:(order|token|sale|reply|value|task):`)

// ofAll matches the keys that an installation has once, and that scripts keep small.
var ofAll = regexp.MustCompile(`^{captcha}:(replicas|due|obstacles|outbox:ends|outbox:handouts)$`)

// keys counts the keys of Redis that perOrder does not match. It fails the test if another key than those of ofAll
// does not expire.
func (s *soak) keys() (n int) {
	for _, name := range keysOf(s, s.redis, "*") {
		if !perOrder.MatchString(name) {
			n++
		}
	}
	const lasting = `local n = {} for _, key in ipairs(redis.call('KEYS', '*')) do if redis.call('PTTL', key) == -1 then n[#n+1] = key end end return n`
	for _, name := range strings.Fields(strings.Trim(redistest.Do(s, s.redis, "EVAL", lasting, 0), "[]")) {
		if !ofAll.MatchString(name) {
			s.Errorf("%s does not expire", name)
		}
	}
	return n
}

// books are the numbers of tasks in the books of the solving services, and in the figures of poold.
type books struct{ Sold, SoldExtra, Bought, Recorded int }

func (s *soak) books() (b books) {
	for _, service := range []string{s.main, s.spare} {
		for _, sale := range ledger(s, service).Sales {
			delete(s.taken, sale.TokenSHA256)
			if b.Sold++; strings.HasSuffix(sale.Identity.Pageurl, "/extra") {
				b.SoldExtra++
			}
		}
	}
	b.Bought = int(s.metrics()["poold_bought_total"])
	var usage struct {
		Lines []struct{ Orders, Refused int }
	}
	_, text := s.stable.Call(http.MethodGet, "/history/usage?by=target", "")
	if err := json.Unmarshal([]byte(text), &usage); err != nil {
		s.Fatal(err)
	}
	for _, line := range usage.Lines {
		b.Recorded += line.Orders - line.Refused
	}
	return b
}

// balance compares the figures of poold with the books of the solving services. Metrics lack the
// counts of a removed target until the file has it again; the history has them.
func (s *soak) balance() {
	s.reload(extra)()
	testkit.Within(s.TB, 20*time.Second, "a new target", func() bool { return s.metrics()[`poold_pool_tokens{target="extra"}`] == 5 })
	s.reload("")()
	testkit.Within(s.TB, 20*time.Second, "the removal of a target", func() bool {
		_, is := s.metrics()[`poold_pool_tokens{target="extra"}`]
		return !is
	})
	var b books
	defer func() { s.Logf("%+v", b) }()
	testkit.Within(s.TB, 20*time.Second, "equal books", func() bool {
		b = s.books()
		return b.Recorded == b.Sold && b.SoldExtra > 0 && b.Bought == b.Sold-b.SoldExtra
	})
	s.reload(extra)()
	testkit.Within(s.TB, 20*time.Second, "equal books of all targets", func() bool {
		b = s.books()
		return b.Recorded == b.Sold && b.Bought == b.Sold
	})
}

// usage is what a poold occupies.
type usage struct{ Connections, Goroutines, Files, Heap int }

// usageOf collects the garbage of a poold and reads its usage.
func usageOf(t testing.TB, p *daemontest.Process) usage {
	t.Helper()
	find := func(path, form string) int {
		_, text := p.Call(http.MethodGet, path, "")
		found := regexp.MustCompile(form).FindStringSubmatch(text)
		if found == nil {
			t.Fatalf("%s has no %s: %.200s", path, form, text)
		}
		n, err := strconv.Atoi(found[1])
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.PID()))
	if err != nil {
		t.Fatal(err)
	}
	return usage{
		Connections: find("/metrics", `(?m)^poold_connections (\d+)`),
		Goroutines:  find("/debug/pprof/goroutine?debug=1", `^goroutine profile: total (\d+)`),
		Heap:        find("/debug/pprof/heap?debug=1&gc=1", `# HeapAlloc = (\d+)`), Files: len(files),
	}
}
