package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"poold/internal/provider/simulated"
	"poold/internal/testkit"
)

// TestOutagesInWords causes the outages of docs/operating.md, one after the other. Each is one line
// of the status with its time, cause, consequence and action, and the line ends with the outage. The
// log has neither a key nor an unknown time.
func TestOutagesInWords(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	service := simulated.New(slow()) // runs in this process, so that its faults can be chosen
	listening := httptest.NewServer(service)
	t.Cleanup(func() { service.Close(); listening.Close() })
	redis, network := cuttable(t)
	w := newWorld(t, slow(), terms{
		service: listening.URL, redis: redis, depth: 2, timeout: "30s", provider: ", concurrency: 1",
		top: `server: {keys: [{name: story, key: ` + storyKey + `, scopes: [token, status, admin]}]}`,
	})
	w.edit(t, "targets:\n", `targets:
  second: {type: turnstile, sitekey: 1x00000000000000000000BB, pageurl: "https://example.com/", owner: qa@example.com, depth: 2}
  third: {type: turnstile, sitekey: 1x00000000000000000000CC, pageurl: "https://example.com/", owner: qa@example.com, depth: 2}
`)
	p := startPoold(t, w.config, storyKey)
	says := func(what, line string) {
		t.Helper()
		form := regexp.MustCompile("^" + line + "$")
		testkit.Within(t, 20*time.Second, what, func() bool {
			var d struct{ Alarms, Notices []string }
			getJSON(t, p.url+"/status.json", storyKey, &d)
			return slices.ContainsFunc(append(d.Alarms, d.Notices...), form.MatchString)
		})
	}
	says("full threads", `[23] targets wait for a thread: provider service has 1 of 1 in use; raise concurrency or add a provider`)

	service.SetFaults(simulated.Fault{On: simulated.Submit, Kind: simulated.Code, Code: "ERROR_KEY_DOES_NOT_EXIST"})
	says("a wrong key of the provider", `Since [0-9:]+ UTC provider service refuses the key \(ERROR_KEY_DOES_NOT_EXIST.*\): nothing is bought; check providers\.service\.key in the configuration file.*`)
	service.SetFaults()
	p.order(http.MethodPost, "/providers/service/probe", "", http.StatusOK)
	says("the end of the fault", `[23] targets wait for a thread: .*`)

	network.Stop()
	says("Redis is away", `Since [0-9:]+ UTC .*: no token is handed out and nothing is bought, .*; repair Redis, or correct redis in the configuration file`)
	if err := network.Start(); err != nil {
		t.Fatal(err)
	}
	says("Redis is back", `[23] targets wait for a thread: .*`)

	const wrong = "wrong-key-of-a-caller-0123456789"
	for range 3 {
		if _, code, err := p.request(context.Background(), http.DefaultClient, "/pool/login/token", "", "Authorization", "Bearer "+wrong); code != http.StatusUnauthorized {
			t.Errorf("a wrong key: %d, %v", code, err)
		}
	}
	testkit.Within(t, 20*time.Second, "the wrong key in the log", func() bool { return strings.Contains(p.output.String(), "key_hash=") })
	log := p.output.String()
	if strings.Count(log, "key_hash=") != 1 || strings.Contains(log, "0001-01-01") || strings.Contains(log, wrong) || strings.Contains(log, storyKey) {
		t.Errorf("the log:\n%s", log)
	}
}
