// Package clients_test runs the Go client against the daemon, and all clients against a bad one. The examples of
// docs/api.md run the others against the daemon.
package clients_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	poold "poold/clients/go"
	"poold/internal/daemontest"
	"poold/internal/provider/simulatedtest"
	"poold/internal/testkit"
)

func TestMain(m *testing.M) { os.Exit(daemontest.Main(m)) }

const key = "0123456789abcdef0123456789abcdef"

// config has a target of two tokens in all, and one without any. The key may send a request each second.
const config = `
server: {keys: [{name: bot, key: %[1]s, scopes: [token], rate: 1/s}]}
providers: [{name: service, url: %[2]q, key: %[1]s, first_poll: 100ms, poll_interval: 100ms}]
defaults: {owner: qa@example.com}
targets:
  login: {type: turnstile, sitekey: 1x00000000000000000000AA, pageurl: "https://staging.example.com/login", depth: 2,
          budget: {per_day: 2}}
  paused: {type: turnstile, sitekey: 1x00000000000000000000AA, pageurl: "https://staging.example.com/paused",
           paused: true}
`

func start(t *testing.T) *daemontest.Process {
	t.Helper()
	service := daemontest.Provider(t,
		simulatedtest.Setup{Median: 100 * time.Millisecond, Threads: 10, Seed: 1})
	return daemontest.Start(t, daemontest.Settings{Config: fmt.Sprintf(config, key, service), Key: key})
}

// refusals counts the answers with a status of 300 or above. The first answer is lost.
type refusals int

func (n *refusals) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := http.DefaultTransport.RoundTrip(r)
	switch {
	case err == nil && *n < 0:
		err = errors.Join(errors.New("the answer was lost"), answer.Body.Close())
		*n = 0
		return nil, err
	case err == nil && answer.StatusCode >= http.StatusMultipleChoices:
		*n++
	}
	return answer, err //nolint:wrapcheck // as the transport
}

// Take waits through temporary refusals, and a lost answer costs no token. Report reports the token's outcome, also if
// an answer is lost.
func TestTakeAndReport(t *testing.T) {
	daemon := start(t)
	n := refusals(-1)
	client := poold.Client{URL: daemon.URL, Key: key, HTTP: &http.Client{Transport: &n}}
	var token poold.Token
	for range 2 {
		var err error
		if token, err = client.Take(t.Context(), "login"); err != nil {
			t.Fatal(err)
		}
		if token.ID == "" || token.Token == "" || token.Type != "turnstile" || token.Target != "login" ||
			time.Until(token.ExpiresAt) <= 0 {
			t.Errorf("the token is %+v", token)
		}
	}
	if n == 0 {
		t.Error("the second token came at once, in spite of the rate")
	}
	n = -1
	testkit.NoError(t, client.Report(t.Context(), token, "accepted"))
	var refused *poold.Error
	for outcome, code := range map[string]string{"rejected": "already_reported", "perhaps": "bad_request"} {
		if err := client.Report(t.Context(), token, outcome); !errors.As(err, &refused) || refused.Code != code {
			t.Errorf("a report %q: %v", outcome, err)
		}
	}
}

// Take ends at once if a repetition would not help, or if the next one would be after the deadline.
func TestTakeEnds(t *testing.T) {
	daemon := start(t)
	client := poold.Client{URL: daemon.URL, Key: key}
	var refused *poold.Error
	if _, err := client.Take(t.Context(), "paused"); !errors.As(err, &refused) || refused.Code != "paused" ||
		refused.Status != http.StatusServiceUnavailable {
		t.Errorf("a paused target: %v", err)
	}
	if _, err := client.Take(t.Context(), "no/such"); !errors.As(err, &refused) || refused.Code != "unknown_target" ||
		refused.Detail == "" {
		t.Errorf("an unknown target: %v", err)
	}
	client.Key = ""
	if _, err := client.Take(t.Context(), "login"); !errors.As(err, &refused) || refused.Code != "unauthorized" {
		t.Errorf("without a key: %v", err)
	}
}

// newServer starts a bad daemon: most targets refuse or hang, a token has its target as its type, and the answer to the
// first report of a token is lost. It also has pages with widgets.
func newServer(t *testing.T) *httptest.Server {
	t.Helper()
	retries := map[string]string{"budget": "2700", "date": "Fri, 31 Dec 2027 23:59:59 GMT", "paused": "300"}
	var mu sync.Mutex
	taken, reported := 0, map[string]bool{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /pool/{target}/token", func(w http.ResponseWriter, r *http.Request) {
		switch target := r.PathValue("target"); {
		case target == "hang":
			<-r.Context().Done()
		case retries[target] != "":
			w.Header().Set("Retry-After", retries[target])
			w.WriteHeader(http.StatusServiceUnavailable)
			if target == "paused" {
				_, _ = fmt.Fprint(w, `{"code": "paused", "detail": "the file pauses it"}`)
			}
		default:
			mu.Lock()
			defer mu.Unlock()
			taken++
			_, _ = fmt.Fprintf(w, `{"id": "%d", "target": %[2]q, "type": %[2]q, "token": "token-%[1]d", "expires_at": %[3]q,
				"extra": {"respKey": "r"}}`, taken, target, time.Now().Add(time.Minute).Format(time.RFC3339))
		}
	})
	mux.HandleFunc("POST /pool/{target}/token/{id}/report", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if id := r.PathValue("id"); !reported[id] {
			reported[id] = true
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /page/{widgets}", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFile(w, r, filepath.Join("testdata", "widgets.html"))
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

// No client waits forever for a server that does not answer, or sleeps through its time until a late repetition.
func TestBadServers(t *testing.T) {
	server := newServer(t)
	client := poold.Client{URL: server.URL}
	var refused *poold.Error
	for _, target := range []string{"budget", "date", "paused"} {
		if _, err := client.Take(t.Context(), target); !errors.As(err, &refused) {
			t.Errorf("Go, %s: %v", target, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := client.Take(ctx, "hang"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Go, hang: %v", err)
	}
	token, err := client.Take(t.Context(), "hcaptcha")
	testkit.NoError(t, err)
	testkit.Equal(t, "Go, the solution's respKey", token.Extra["respKey"], "r")
	python := exec.CommandContext(t.Context(), "pytest", "-q", "-p", "no:cacheprovider", "testdata/test_bad_servers.py")
	python.Env = append(os.Environ(), "PYTHONPATH=pytest", "PYTHONDONTWRITEBYTECODE=1", "POOLD_URL="+server.URL)
	if printed, err := python.CombinedOutput(); err != nil {
		t.Errorf("pytest: %v\n%s", err, printed)
	}
}

// The fixture for Playwright fills what belongs to the type of the token; its errors and reports are as the others'.
func TestPlaywright(t *testing.T) {
	server, dir := newServer(t), t.TempDir()
	browser, err := exec.LookPath("chromium")
	testkit.NoError(t, err)
	cache, err := os.UserCacheDir()
	testkit.NoError(t, err)
	testkit.NoError(t, os.Symlink(filepath.Join(cache, "poold", "docs", "node_modules"),
		filepath.Join(dir, "node_modules")))
	for _, file := range []string{"playwright/poold-fixture.ts", "testdata/fill.spec.ts"} {
		text, err := os.ReadFile(file)
		testkit.NoError(t, err)
		testkit.NoError(t, os.WriteFile(filepath.Join(dir, filepath.Base(file)), text, 0o600))
	}
	settings := fmt.Sprintf("module.exports = { timeout: 120_000, use: { launchOptions: { executablePath: %q } } };\n",
		browser)
	testkit.NoError(t, os.WriteFile(filepath.Join(dir, "playwright.config.js"), []byte(settings), 0o600))
	run := exec.CommandContext(t.Context(), "npx", "playwright", "test", "--workers=1", "--reporter=line")
	run.Dir, run.Env = dir, append(os.Environ(), "POOLD_URL="+server.URL)
	if printed, err := run.CombinedOutput(); err != nil {
		t.Errorf("Playwright: %v\n%s", err, printed)
	}
}
