package main

import (
	_ "embed"
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
	"poold/internal/daemontest"
	"poold/internal/events"
	"poold/internal/httpapi"
	"poold/internal/provider/simulatedtest"
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

// proxyUser is the user of the proxy of the target "checkout", with the password.
const proxyUser = "user-of-the-proxy:password-of-the-proxy"

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
		Pageurl: "https://staging.example.com/checkout", Proxy: proxyUser + "@proxy.example.com:3128",
		ProxyType: "http"}.ID(),
	"short": captcha.Identity{Type: captcha.Turnstile, Sitekey: "2x00000000000000000000AB",
		Pageurl: "https://staging.example.com/short"}.ID(),
	"added": captcha.Identity{Type: captcha.RecaptchaV3, Sitekey: "6LeIxAcTAAAAAJcZVRqyHh71UMIEGNQ_MXjiZKhI",
		Pageurl: "https://staging.example.com/added", Action: "login"}.ID(),
}

// TestEndToEnd tests the whole path from pools.yaml to the callers, with a real Redis server. The
// solving service runs in another process. A target that the file adds is filled, and a broken file changes nothing.
func TestEndToEnd(t *testing.T) {
	t.Parallel()
	const providerKey, callersKey, password = "key-of-the-provider", "key-of-the-callers", "password-of-redis"
	redis := redistest.Server(t, "--requirepass", password)
	service := daemontest.Provider(t, simulatedtest.Setup{
		Key: providerKey, Median: 250 * time.Millisecond, Sigma: 0.3,
		Threads: 60, FailShare: 0.03, Seed: 7, LedgerHTTP: true,
	})
	config := filepath.Join(t.TempDir(), "pools.yaml")
	text := fmt.Sprintf(e2eConfig, service)
	writeFile(t, config, text)
	p := startPoold(t, config, callersKey, "PROVIDER_KEY="+providerKey, "SERVER_KEY="+callersKey,
		"REDIS=redis://:"+password+"@"+redis, "PROXY="+proxyUser)

	fill(t, p, "login", 10*time.Second)
	fill(t, p, "checkout", 10*time.Second)
	// No caller took a token and no token has expired, so the number of bought tokens is the depth.
	atRest := ledger(t, service)
	for _, name := range []string{"login", "checkout"} {
		testkit.Equal(t, "bought for "+name, bought(atRest, identities[name]), 20)
	}
	takeMany(t, p, 200, 20)

	writeFile(t, config, text+extraTarget)
	p.tells(events.ReplicaStarted, events.ReloadApplied)
	fill(t, p, "added", 20*time.Second)
	writeFile(t, config, text+"\n  bad: {type: nonsense}\n")
	p.tells(events.ReloadRefused)
	h, code, err := p.take(t.Context(), http.DefaultClient, "added", "")
	if err != nil || code != http.StatusOK {
		t.Fatalf("a target of the last valid file: %d, %v", code, err)
	}
	checkIdentity(t, "added", h)
	writeFile(t, config, text+extraTarget)
	testkit.Within(t, 20*time.Second, "an event that the file is valid again", func() bool {
		var told httpapi.EventList
		getJSON(t, p.URL+"/events?limit=1000", p.key, &told)
		return slices.ContainsFunc(told.Events, func(e events.Event) bool {
			return strings.HasPrefix(e.Text, "The configuration file is valid again, and applied")
		})
	})

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
}

// takeMany takes n tokens for several concurrent callers and checks each token.
func takeMany(t *testing.T, p *process, n, callers int) {
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
		s := p.target(target)
		return s.Fresh == s.Depth && s.InFlight == 0
	})
}

func writeFile(t testing.TB, path, text string) {
	t.Helper()
	testkit.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}
