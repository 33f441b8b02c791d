package main

import (
	_ "embed"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	api2captcha "github.com/2captcha/2captcha-go"

	"poold/internal/daemontest"
	"poold/internal/provider/simulatedtest"
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

// clientKey is a key of the form that clients of solving services accept.
const clientKey = "0123456789abcdef0123456789abcdef"

// strangersKey is the key of another client.
const strangersKey = "fedcba9876543210fedcba9876543210"

// clientsConfig is the configuration file of the tests with clients of solving services. It has
// placeholders for the addresses of Redis and of the provider.
//
//go:embed testdata/clients.yaml
var clientsConfig string

var clientTargets = []string{"v2", "v3", "hc", "ts"}

// startForClients starts a poold, and returns when its pools are full.
func startForClients(t *testing.T) *process {
	t.Helper()
	service := daemontest.Provider(t, simulatedtest.Setup{Key: "provider-key", Median: 100 * time.Millisecond, Seed: 5})
	config := filepath.Join(t.TempDir(), "pools.yaml")
	writeFile(t, config, fmt.Sprintf(clientsConfig, redistest.Server(t), service))
	p := startPoold(t, config, clientKey)
	for _, name := range clientTargets {
		fill(t, p, name, 20*time.Second)
	}
	return p
}

// callInPHP makes a call of the protocol in_php and returns the text of the response.
func (p *process) callInPHP(path string, fields ...string) string {
	p.t.Helper()
	values := url.Values{"key": {clientKey}}
	for i := 0; i+1 < len(fields); i += 2 {
		values.Set(fields[i], fields[i+1])
	}
	body, status, err := p.request(p.t.Context(), http.DefaultClient, path, values.Encode(), "Content-Type",
		"application/x-www-form-urlencoded")
	if err != nil || status != http.StatusOK {
		p.t.Fatalf("%s: %d %s %v", path, status, body, err)
	}
	return string(body)
}

// submit sends a submit for the identity of the target named ts and returns the id of the task.
func (p *process) submit() string {
	p.t.Helper()
	said := p.callInPHP("/in.php", "method", "turnstile", "sitekey", "ts-key", "pageurl", "https://e.example.com/ts")
	id, ok := strings.CutPrefix(said, "OK|")
	if !ok {
		p.t.Fatalf("the submit: %s", said)
	}
	return id
}

// poll polls a task and returns the response.
func (p *process) poll(id string) string {
	p.t.Helper()
	return p.callInPHP("/res.php", "action", "get", "id", id)
}

// The client of 2captcha, unchanged except for the address, gets a pooled token at its first poll.
func TestTwoCaptchaClient(t *testing.T) {
	t.Parallel()
	p := startForClients(t)
	client := api2captcha.NewClient(clientKey)
	base, err := url.Parse(p.URL)
	testkit.NoError(t, err)
	client.BaseURL, client.PollingInterval = base, 0
	for name, request := range map[string]api2captcha.Request{
		"v2": (&api2captcha.ReCaptcha{SiteKey: "v2-key", Url: "https://e.example.com/v2"}).ToRequest(),
		"v3": (&api2captcha.ReCaptcha{SiteKey: "v3-key", Url: "https://e.example.com/v3", Version: "v3", Action: "login",
			Score: 0.3}).ToRequest(),
		"hc": (&api2captcha.HCaptcha{SiteKey: "hc-key", Url: "https://e.example.com/hc"}).ToRequest(),
		"ts": (&api2captcha.CloudflareTurnstile{SiteKey: "ts-key", Url: "https://e.example.com/ts"}).ToRequest(),
	} {
		token, id, err := client.Solve(request)
		if err != nil || !strings.HasPrefix(token, "SIMULATED.") || len(id) != 11 {
			t.Fatalf("%s: %q %q, %v", name, token, id, err)
		}
		testkit.NoError(t, client.Report(id, name != "hc"))
	}
	testkit.Within(t, 20*time.Second, "the status to show that each was in the pool at the first poll", func() bool {
		return !slices.ContainsFunc(clientTargets, func(name string) bool {
			s := p.target(name)
			return s.Requests != 1 || s.Hits != 1
		})
	})
	if balance, err := client.GetBalance(); err != nil || balance <= 0 || balance > 5000-16 {
		t.Errorf("the balance: %v, %v", balance, err)
	}
	picture := []byte("\x89PNG\r\n\x1a\nof a test")
	file := filepath.Join(t.TempDir(), "picture.png")
	testkit.NoError(t, os.WriteFile(file, append(picture, '2'), 0o600))
	client.PollingInterval = 1
	text := base64.StdEncoding.EncodeToString(picture)
	for _, normal := range []api2captcha.Normal{{Base64: text}, {File: file, CaseSensitive: true, MinLen: 2}} {
		if text, id, err := client.Solve(normal.ToRequest()); err != nil || text == "" {
			t.Errorf("a picture: %q, %v", text, err)
		} else if err := client.Report(id, false); err != nil {
			t.Errorf("the report on a picture: %v", err)
		}
	}
	p.balance()
}

// The daemon is killed at four points: between submit and poll, when the poll takes the token, when
// the token is stored for the task, and after the response. After each kill, the task's id still
// gives the same token, and only to the caller that submitted the task.
func TestTasksSurviveAKill(t *testing.T) {
	t.Parallel()
	p := startForClients(t)
	unpolled, taken, noted, told := p.submit(), p.submit(), p.submit(), p.submit()
	token := p.poll(told)
	p.Signal(syscall.SIGKILL)
	p.waitForDeath(5 * time.Second)
	for id, environment := range map[string]string{taken: crashAt("taken", 1), noted: crashAt("noted", 1)} {
		dying := startPoold(t, p.Config, clientKey, environment)
		if answer, _, err := dying.request(t.Context(), http.DefaultClient, "/res.php?action=get&key="+clientKey+"&id="+id,
			""); err == nil {
			t.Errorf("%s: it answers %q", environment, answer)
		}
		dying.waitForDeath(5 * time.Second)
	}
	again := startPoold(t, p.Config, clientKey)
	testkit.Equal(t, "after the answer", again.poll(told), token)
	seen := map[string]bool{token: true}
	for what, id := range map[string]string{"between submit and poll": unpolled, "after the take": taken,
		"before the answer": noted} {
		body, _, err := again.request(t.Context(), http.DefaultClient, "/res.php?action=get&key="+strangersKey+"&id="+id, "")
		if err != nil || string(body) != "ERROR_WRONG_CAPTCHA_ID" {
			t.Errorf("%s: a stranger is told %.60s, %v", what, body, err)
		}
		got := again.poll(id)
		if !strings.HasPrefix(got, "OK|SIMULATED.") || seen[got] {
			t.Errorf("%s: %.60s", what, got)
		}
		testkit.Equal(t, what+", polled twice", again.poll(id), got)
		seen[got] = true
	}
	testkit.Within(t, 20*time.Second, "one request for each task", func() bool { return again.target("ts").Hits == 4 })
	testkit.Equal(t, "requests of 4 tasks", again.target("ts").Requests, 4)
	again.balance()
}
