package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/cli"
	"poold/internal/daemontest"
	"poold/internal/events"
	"poold/internal/httpapi"
	"poold/internal/provider/simulatedtest"
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

// These are secrets that no output may contain.
const (
	canaryProvider = "canary-provider-key-5e2b"
	canaryServer   = "canary-server-key-77aa"
	canaryRedis    = "canary-redis-password-91c0"
	canaryProxy    = "canary-proxy-user:canary-proxy-pass"
)

//go:embed testdata/e2e.yaml
var e2eConfig string

const extraTarget = `
  added: {type: recaptcha_v3, sitekey: 6LeIxAcTAAAAAJcZVRqyHh71UMIEGNQ_MXjiZKhI, action: login, depth: 3,
          pageurl: "https://staging.example.com/added"}
`

// These are the identities of the targets in the file. The test compares them with the identities
// in the tokens.
var identities = map[string]captcha.ID{
	"login": captcha.Identity{Type: captcha.RecaptchaV2, Sitekey: "6LeIxAcTAAAAAJcZVRqyHh71UMIEGNQ_MXjiZKhI",
		Pageurl: "https://staging.example.com/login"}.ID(),
	"checkout": captcha.Identity{Type: captcha.Turnstile, Sitekey: "1x00000000000000000000AA",
		Pageurl: "https://staging.example.com/checkout", Proxy: canaryProxy + "@proxy.example.com:3128",
		ProxyType: "http"}.ID(),
	"short": captcha.Identity{Type: captcha.Turnstile, Sitekey: "2x00000000000000000000AB",
		Pageurl: "https://staging.example.com/short"}.ID(),
	"added": captcha.Identity{Type: captcha.RecaptchaV3, Sitekey: "6LeIxAcTAAAAAJcZVRqyHh71UMIEGNQ_MXjiZKhI",
		Pageurl: "https://staging.example.com/added", Action: "login"}.ID(),
}

// TestEndToEnd tests the whole path from pools.yaml to the callers, with a real Redis server. The
// solving service runs in another process.
func TestEndToEnd(t *testing.T) {
	t.Parallel()
	redis := redistest.Server(t, "--requirepass", canaryRedis)
	service := daemontest.Provider(t, simulatedtest.Setup{
		Key: canaryProvider, Median: 250 * time.Millisecond, Sigma: 0.3,
		Threads: 60, FailShare: 0.03, Seed: 7, LedgerHTTP: true,
	})
	config := filepath.Join(t.TempDir(), "pools.yaml")
	text := fmt.Sprintf(e2eConfig, service)
	writeFile(t, config, text)
	p := startPoold(t, config, canaryServer, "PROVIDER_KEY="+canaryProvider, "SERVER_KEY="+canaryServer,
		"REDIS=redis://:"+canaryRedis+"@"+redis, "PROXY="+canaryProxy)

	fill(t, p, "login", 10*time.Second)
	fill(t, p, "checkout", 10*time.Second)
	// No caller took a token and no token has expired, so the number of bought tokens is the depth.
	atRest := ledger(t, service)
	for _, name := range []string{"login", "checkout"} {
		testkit.Equal(t, "bought for "+name, bought(atRest, identities[name]), 20)
	}

	tokens := takeMany(t, p, 200, 20)
	// The second subtest takes from the target that the first one adds.
	t.Run("an added target is filled", func(t *testing.T) {
		writeFile(t, config, text+extraTarget)
		fill(t, p, "added", 20*time.Second)
		h, code, err := p.take(t.Context(), http.DefaultClient, "added", "")
		if err != nil || code != http.StatusOK {
			t.Fatalf("taking: %d, %v", code, err)
		}
		checkIdentity(t, "added", h)
		tokens = append(tokens, h.Token)
	})
	t.Run("a broken edit changes nothing", func(t *testing.T) {
		for _, broken := range []string{
			text + "\n  bad: {type: nonsense}\n",
			strings.Replace(text, "concurrency: 60", "concurrency: ${PROVIDER_KEY}", 1),
			strings.Replace(text, "url: ${REDIS}", "url: {${REDIS}", 1),
			"",
		} {
			writeFile(t, config, broken)
			testkit.Within(t, 20*time.Second, "the status to tell of a broken file", func() bool { return !configOK(t, p) })
			if h, code, err := p.take(t.Context(), http.DefaultClient, "added", "?wait=5s"); err != nil ||
				code != http.StatusOK {
				t.Fatalf("a target of the last good file: %d, %v", code, err)
			} else {
				tokens = append(tokens, h.Token)
			}
			writeFile(t, config, text+extraTarget)
			testkit.Within(t, 20*time.Second, "the status to be well again", func() bool { return configOK(t, p) })
		}
	})

	p.tells(events.ReplicaStarted, events.ReloadApplied, events.ReloadRefused)
	var told httpapi.EventList
	getJSON(t, p.URL+"/events?limit=1000", p.key, &told)
	if !slices.ContainsFunc(told.Events, func(e events.Event) bool {
		return strings.HasPrefix(e.Text, "The configuration file is valid again, and applied")
	}) {
		t.Error("no event says that the file is valid again")
	}
	end := ledger(t, service)
	testkit.AtMost(t, "tasks at once for a concurrency of 60", end.Totals.PeakInFlight, 60)
	for _, name := range []string{"login", "checkout"} {
		// Every order was placed to reach the depth at first, or to replace a token that was taken.
		served := p.target(name)
		testkit.AtMost(t, name+": tokens bought", int64(bought(end, identities[name])), 20+served.Hits+served.Waited)
	}
	for _, sale := range end.Sales {
		testkit.AtMost(t, "times that task "+sale.Task+" was collected", sale.Collected, 1)
	}

	testkit.NoError(t, p.Stop())
	printed := p.Output.String()
	if !strings.Contains(printed, "stopped") {
		t.Errorf("the stop was not finished:\n%s", tail(printed, 2000))
	}
	for _, secret := range append(tokens, canaryProvider, canaryServer, canaryRedis, "canary-proxy-pass") {
		if strings.Contains(printed, secret) {
			t.Errorf("%.40s… was printed", secret)
		}
	}
}

// takeMany takes n tokens for several concurrent callers and checks each token.
func takeMany(t *testing.T, p *process, n, callers int) []string {
	t.Helper()
	client := &http.Client{Transport: daemontest.Checking(&http.Transport{MaxIdleConnsPerHost: callers}),
		Timeout: 70 * time.Second}
	defer client.CloseIdleConnections()
	margins := map[string]int64{"login": 20_000, "checkout": 20_000, "short": 2_000}
	names := []string{"login", "checkout", "short", "login", "checkout"}
	var mu sync.Mutex
	seen := map[string]bool{}
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			for i := range n / callers {
				name := names[(caller+i)%len(names)]
				h, code, err := p.take(t.Context(), client, name, "?wait=60s")
				if err != nil || code != http.StatusOK {
					t.Errorf("%s: %d, %v", name, code, err)
					return
				}
				checkIdentity(t, name, h)
				testkit.AtLeast(t, name+": ms of life of a token", h.TTLms, margins[name])
				// a busy machine reads answers late
				if left := time.Until(h.ExpiresAt).Milliseconds(); left < margins[name]-10_000 {
					t.Errorf("%s: expires in %d ms by the caller's clock", name, left)
				}
				mu.Lock()
				if seen[h.Token] {
					t.Errorf("%s was handed out twice", h.ID)
				}
				seen[h.Token] = true
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if len(seen) != n && !t.Failed() {
		t.Errorf("%d tokens for %d takes", len(seen), n)
	}
	tokens := make([]string, 0, len(seen))
	for token := range seen {
		tokens = append(tokens, token)
	}
	return tokens
}

func checkIdentity(t *testing.T, target string, h handout) {
	t.Helper()
	id, ok := simulatedtest.IdentityOf(h.Token)
	if !ok || id != identities[target].Hash() || h.Target != target || h.Provider != "service" {
		t.Errorf("a token for %s was solved for %s at %s", target, id, h.Provider)
	}
}

// bought returns the number of sold tasks of an identity, without the tasks that failed.
func bought(books simulatedtest.Ledger, id captcha.ID) int {
	n := 0
	for _, sale := range books.Sales {
		if sale.ID == id && !sale.Failed {
			n++
		}
	}
	return n
}

// fill waits until a target has as many tokens as its depth, and no order.
func fill(t *testing.T, p *process, target string, limit time.Duration) {
	t.Helper()
	testkit.Within(t, limit, target+" to be full", func() bool {
		for _, s := range allTargets(t, p) {
			if s.Name == target {
				return s.Fresh == s.Depth && s.InFlight == 0
			}
		}
		return false
	})
}

func allTargets(t *testing.T, p *process) []targetStatus {
	t.Helper()
	var document struct{ Targets []targetStatus }
	getJSON(t, p.URL+"/status.json", p.key, &document)
	return document.Targets
}

func configOK(t *testing.T, p *process) bool {
	t.Helper()
	var document struct{ Config struct{ OK bool } }
	getJSON(t, p.URL+"/status.json", p.key, &document)
	return document.Config.OK
}

func writeFile(t testing.TB, path, text string) {
	t.Helper()
	testkit.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

// With only the shipped file, poold serves simulated tokens, and the client commands work with this
// daemon. This test calls the function run directly.
func TestEmbeddedDefaultAndClientCommands(t *testing.T) {
	t.Parallel()
	address := redistest.FreeAddress(t)
	env := map[string]string{"POOLD_URL": "http://" + address, "POOLD_CONFIG": filepath.Join("..", "..", "pools.yaml")}
	lookup := func(name string) (string, bool) { value, ok := env[name]; return value, ok }
	command := func(args ...string) (string, int) {
		var out, log strings.Builder
		code := run(t.Context(), args, lookup, &out, &log)
		return out.String() + log.String(), code
	}
	ctx, stop := context.WithCancel(t.Context())
	var log testkit.Log
	served := make(chan int, 1)
	go func() { served <- run(ctx, []string{"--listen", address}, lookup, &log, &log) }()
	t.Cleanup(func() {
		stop()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	testkit.Within(t, 20*time.Second, "the daemon",
		func() bool { _, code := command("healthcheck"); return code == cli.ExitDone })

	var document struct {
		Targets   []targetStatus
		Providers []struct{ Name string }
		Redis     struct{ Mode string }
	}
	getJSON(t, env["POOLD_URL"]+"/status.json", "", &document)
	if len(document.Targets) < 2 || document.Redis.Mode != "embedded" || document.Providers[0].Name != "simulated" {
		t.Fatalf("status: %+v", document)
	}
	first := document.Targets[0].Name
	var text string
	var code int
	testkit.Within(t, time.Minute, "a token", func() bool { // a starved Redis may not answer for a moment
		text, code = command("token", first, "--wait", "50s")
		return !strings.Contains(text, "store_down")
	})
	if code != cli.ExitDone || !strings.HasPrefix(text, "SIMULATED.") || strings.Count(text, "\n") != 1 {
		t.Errorf("token: %d %q", code, text)
	}
	if text, code := command("status"); code != cli.ExitDone || !strings.Contains(text, first) ||
		!strings.Contains(text, "embedded") {
		t.Errorf("status: %d\n%s", code, text)
	}
	if text, code := command("status", "--json"); code != cli.ExitDone || !strings.HasPrefix(text, "{") {
		t.Errorf("status --json: %d\n%s", code, text)
	}
	runAllChanges(t, command, first)
	if text, code := command("token", "no-such-target"); code != cli.ExitFailed ||
		!strings.Contains(text, "unknown_target") {
		t.Errorf("an unknown target: %d %q", code, text)
	}
	if !strings.Contains(log.String(), "simulated") {
		t.Error("the start did not say that the provider is simulated")
	}
	stop()
	code = testkit.Receive(t, 15*time.Second, "the end of the daemon", served)
	testkit.Equal(t, "the daemon's exit code", code, cli.ExitDone)
}

// runAllChanges runs all commands that change something, on a daemon with one target.
func runAllChanges(t *testing.T, command func(args ...string) (string, int), target string) {
	t.Helper()
	var taken string
	testkit.Within(t, time.Minute, "a token", func() bool {
		taken, _ = command("token", target, "--wait", "50s", "--json", "--min-ttl", "1s")
		return !strings.Contains(taken, "store_down")
	})
	var answer struct{ ID string }
	if err := json.Unmarshal([]byte(taken), &answer); err != nil || answer.ID == "" {
		t.Errorf("token --json: %v: %q", err, taken)
	}
	for _, c := range []struct {
		args string
		says string
	}{
		{"report " + target + " " + answer.ID + " accepted", "reported\n"},
		{"pause " + target + " --for 1h --reason tried", ": paused\n"},
		{"flush " + target, ": flushed\n"},
		{"resume " + target, ": resumed\n"},
		{"reload", "the file was read again\n"},
	} {
		var text string
		var code int
		testkit.Within(t, time.Minute, c.args, func() bool {
			text, code = command(strings.Fields(c.args)...)
			return !strings.Contains(text, "store_down")
		})
		if code != cli.ExitDone || !strings.Contains(text, c.says) {
			t.Errorf("%s: exit %d: %s", c.args, code, text)
		}
		if strings.HasPrefix(c.args, "pause") {
			testkit.Within(t, 20*time.Second, "the pause to be shown with its reason", func() bool {
				text, _ := command("status", target)
				return strings.Contains(text, "tried")
			})
		}
	}
}
