// Package clients_test runs the Go client against the daemon, and two clients against bad servers; docs/api.md runs
// the others.
package clients_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
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
  login: {type: turnstile, sitekey: 1x00000000000000000000AA, pageurl: "https://staging.example.com/login", depth: 2, budget: {per_day: 2}}
  paused: {type: turnstile, sitekey: 1x00000000000000000000AA, pageurl: "https://staging.example.com/paused", paused: true}
`

func start(t *testing.T) *daemontest.Process {
	t.Helper()
	service := daemontest.Provider(t, simulatedtest.Options{Median: 100 * time.Millisecond, Threads: 10, Flavour: simulatedtest.CaptchaAI, Seed: 1})
	return daemontest.Start(t, daemontest.Options{Config: fmt.Sprintf(config, key, service), Key: key})
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

// Take waits through temporary refusals, and a lost answer costs no token. Report reports the token's outcome.
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
		if token.ID == "" || token.Token == "" || token.Target != "login" || time.Until(token.ExpiresAt) <= 0 {
			t.Errorf("the token is %+v", token)
		}
	}
	if n == 0 {
		t.Error("the second token came at once, in spite of the rate")
	}
	var refused *poold.Error
	testkit.Within(t, 10*time.Second, "the report", func() bool {
		err := client.Report(t.Context(), token, "accepted")
		return err == nil || !errors.As(err, &refused) || refused.Code != "rate_limited"
	})
	testkit.Within(t, 10*time.Second, "a refusal of an unknown outcome", func() bool {
		return errors.As(client.Report(t.Context(), token, "perhaps"), &refused) && refused.Code == "bad_request"
	})
}

// Take ends at once if a repetition would not help, or if the next one would be after the deadline.
func TestTakeEnds(t *testing.T) {
	daemon := start(t)
	client := poold.Client{URL: daemon.URL, Key: key}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var refused *poold.Error
	if _, err := client.Take(ctx, "paused"); !errors.As(err, &refused) || refused.Code != "paused" || ctx.Err() != nil {
		t.Errorf("a paused target, before the deadline: %v, %v", err, ctx.Err())
	}
	if _, err := client.Take(t.Context(), "no/such"); !errors.As(err, &refused) || refused.Code != "unknown_target" || refused.Detail == "" {
		t.Errorf("an unknown target: %v", err)
	}
	client.Key = ""
	if _, err := client.Take(t.Context(), "login"); !errors.As(err, &refused) || refused.Code != "unauthorized" {
		t.Errorf("without a key: %v", err)
	}
}

// No client waits forever for a server that does not answer, or sleeps through its time until a late repetition.
func TestBadServers(t *testing.T) {
	retries := map[string]string{"/pool/budget/token": "2700", "/pool/date/token": "Fri, 31 Dec 2027 23:59:59 GMT"}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if retries[r.URL.Path] == "" {
			<-r.Context().Done()
		}
		w.Header().Set("Retry-After", retries[r.URL.Path])
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(server.Close)
	client := poold.Client{URL: server.URL}
	var refused *poold.Error
	for _, target := range []string{"budget", "date"} {
		if _, err := client.Take(t.Context(), target); !errors.As(err, &refused) {
			t.Errorf("Go, %s: %v", target, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := client.Take(ctx, "hang"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Go, hang: %v", err)
	}
	python := exec.CommandContext(t.Context(), "pytest", "-q", "-p", "no:cacheprovider", "testdata/test_bad_servers.py")
	python.Env = append(os.Environ(), "PYTHONPATH=pytest", "PYTHONDONTWRITEBYTECODE=1", "POOLD_URL="+server.URL)
	if printed, err := python.CombinedOutput(); err != nil {
		t.Errorf("pytest: %v\n%s", err, printed)
	}
}
