package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"poold/internal/daemontest"
	"poold/internal/provider/simulatedtest"
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

// world is the environment of a test of faults: a Redis, a provider and the configuration file of the
// replicas.
type world struct {
	redis    string // one or more addresses
	provider string
	config   string
	letters  string // folder of the dead letters
}

// terms contains the settings of the configuration file that differ between the tests.
type terms struct {
	timeout  string // timeout of a task; "" = 8s
	provider string // more keys of the provider; starts with a comma
	top      string // whole sections
	depth    int
	redis    string // the address of a shared Redis; "" = a new one
}

// quick returns the options of a provider with short lead times and a ledger.
func quick() simulatedtest.Setup {
	return simulatedtest.Setup{
		Median: 600 * time.Millisecond, Sigma: 0.4,
		Seed: 21, LedgerHTTP: true, CallbackForms: true,
	}
}

func newWorld(t testing.TB, o simulatedtest.Setup, with terms) *world {
	t.Helper()
	w := &world{redis: with.redis, provider: daemontest.Provider(t, o), config: filepath.Join(t.TempDir(), "pools.yaml"),
		letters: t.TempDir()}
	if w.redis == "" {
		w.redis = "redis://" + redistest.Server(t)
	}
	if with.timeout == "" {
		with.timeout = "8s"
	}
	writeFile(t, w.config, fmt.Sprintf(`
redis: {url: "%s", prefix: world}
providers:
  - {name: service, protocol: in_php, service: 2captcha, url: "%s", key: 0123456789abcdef0123456789abcdef,
     first_poll: 200ms, poll_interval: 100ms, timeout: %s%s}
dead_letters: {dir: "%s"}
%s
targets:
  login: {type: turnstile, sitekey: 1x00000000000000000000AA, pageurl: "https://example.com/", owner: qa@example.com,
          depth: %d}
`, w.redis, w.provider, with.timeout, with.provider, w.letters, with.top, with.depth))
	return w
}

func (w *world) start(t testing.TB, env ...string) *process {
	t.Helper()
	return startPoold(t, w.config, "", env...)
}

// sales returns the provider's sales, as a map whose keys are the hashes of the tokens.
func sales(books simulatedtest.Ledger) map[string]simulatedtest.Sale {
	byToken := map[string]simulatedtest.Sale{}
	for _, sale := range books.Sales {
		if !sale.Failed {
			byToken[sale.TokenSHA256] = sale
		}
	}
	return byToken
}

func hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// drain takes all tokens in stock. It checks that the provider sold each token, and that no token
// is handed out twice.
func (w *world) drain(t *testing.T, p *process, seen map[string]bool) int {
	t.Helper()
	sold := sales(ledger(t, w.provider))
	taken := 0
	for until := time.Now().Add(20 * time.Second); ; {
		body, code, err := p.request(t.Context(), http.DefaultClient, "/pool/login/token?wait=0s", "")
		if bytes.Contains(body, []byte(`"store_down"`)) && time.Now().Before(until) { // a starved Redis
			time.Sleep(200 * time.Millisecond)
			continue
		}
		var h handout
		if err != nil || code != http.StatusOK || json.Unmarshal(body, &h) != nil {
			return taken
		}
		taken++
		name := hash(h.Token)
		if _, ok := sold[name]; !ok {
			t.Errorf("a token was handed out that nobody sold: %s", h.ID)
		}
		if seen[name] {
			t.Errorf("a token was handed out twice: %s", h.ID)
		}
		seen[name] = true
	}
}

// atRest waits until the target is full and has no order in flight, in a status that is younger than the call.
func (w *world) atRest(t testing.TB, p *process, limit time.Duration) targetStatus {
	t.Helper()
	var s targetStatus
	began := time.Now()
	testkit.Within(t, limit, "the target to be at rest", func() bool {
		var document struct {
			AsOf    time.Time `json:"as_of"`
			Targets []targetStatus
		}
		getJSON(t, p.URL+"/status.json", p.key, &document)
		s = document.Targets[slices.IndexFunc(document.Targets, func(s targetStatus) bool { return s.Name == "login" })]
		return document.AsOf.After(began) && s.InFlight == 0 && s.Fresh >= s.Depth
	})
	return s
}

// One of two replicas kills itself at a step of an order, and the other replica takes over. Nothing is
// bought twice. TestADeadReplicasOrders of package purchase has each step. The token of every solved task is collected,
// unless the kill interrupted the submit of the task.
func TestKillDuringAnOrder(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	const depth = 3
	for _, step := range []struct {
		point     string
		callbacks bool
		lost      int // orders whose submit got no answer
		sold      int // those of them that the service had accepted
	}{
		{point: "submitted", lost: 1, sold: 1},
		{point: "bought"},
		{point: "received", callbacks: true},
	} {
		name := step.point
		if step.callbacks {
			name += " with callbacks"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			with := terms{depth: depth, provider: ", concurrency: 1"}
			var door *callbackDoor
			if step.callbacks {
				door = newCallbackDoor(t)
				with.provider += `, callback_url: "` + door.url + `", fallback_after: 2s`
			}
			w := newWorld(t, quick(), with)
			living := w.start(t)
			door.setReplicas(living)
			w.atRest(t, living, 90*time.Second)
			// Only one order runs at a time, so that the kill interrupts only the tested step.
			dying := w.start(t, crashAt(step.point, 1))
			door.setReplicas(dying, living)
			// The other replica may be faster, and place the order: then another take causes another order.
			seen := map[string]bool{}
			for dead := false; !dead; {
				taken, code, err := dying.take(t.Context(), http.DefaultClient, "login", "")
				if code != http.StatusOK {
					t.Fatal(code, err)
				}
				seen[hash(taken.Token)] = true
				testkit.Within(t, 60*time.Second, "a death, or the token of the other replica's order", func() bool {
					s := living.target("login")
					dead = len(dying.Ended) > 0
					return dead || s.Fresh >= depth && int(s.Bought) == depth+len(seen)
				})
			}
			testkit.Within(t, 60*time.Second, "the other replica to show the takes",
				func() bool { return int(living.target("login").Hits) == len(seen) })
			s := w.atRest(t, living, 90*time.Second)
			bought := living.balance()
			books := ledger(t, w.provider)
			testkit.Equal(t, "orders that are lost", int(s.Lost), step.lost)
			testkit.Equal(t, "tasks bought, with those taken and those cut in flight",
				books.Totals.Submitted, depth+len(seen)+step.sold)
			testkit.Equal(t, "bought by poold's count", bought, books.Totals.Submitted+step.lost-step.sold)
			// Each solved token is handed out once in the end.
			w.drain(t, living, seen)
			testkit.AtLeast(t, "tokens that came to light", len(seen), books.Totals.Submitted-step.sold)
			t.Logf("bought %d, sold %d, lost %d", bought, books.Totals.Submitted, s.Lost)
		})
	}
}

// Redis is killed with orders in flight, and comes back with its append-only file. Their tokens, which the service made
// meanwhile, come to the stock, and nothing is bought again.
func TestRedisComesBackWithItsFile(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	const depth = 3
	address, folder := redistest.FreeAddress(t), t.TempDir()
	startRedis := func() (kill func()) {
		redis := exec.Command("redis-server", "--port", address[strings.Index(address, ":")+1:], "--bind", "127.0.0.1",
			"--dir", folder, "--save", "", "--appendonly", "yes", "--appendfsync", "always")
		testkit.NoError(t, redis.Start())
		kill = func() { _ = redis.Process.Kill(); _ = redis.Wait() }
		t.Cleanup(kill)
		return kill
	}
	kill := startRedis()
	solves := quick()
	solves.Median, solves.Sigma = 5*time.Second, 0
	w := newWorld(t, solves, terms{depth: depth, redis: "redis://" + address, timeout: "60s"})
	p := w.start(t)
	testkit.Within(t, 90*time.Second, "orders in flight", func() bool { return p.target("login").Bought == depth })
	kill()
	testkit.Within(t, 90*time.Second, "the service to solve them",
		func() bool { return ledger(t, w.provider).Totals.Collected == depth })
	startRedis()
	s := w.atRest(t, p, 90*time.Second)
	submitted := ledger(t, w.provider).Totals.Submitted
	testkit.Equal(t, "submitted, lost and ready", fmt.Sprint(submitted, s.Lost, s.Fresh), "3 0 3")
	testkit.AtLeast(t, "tokens", w.drain(t, p, map[string]bool{}), depth)
}
