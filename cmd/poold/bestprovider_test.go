package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"poold/internal/provider/simulatedtest"
	"poold/internal/redisdb/redistest"
	"poold/internal/status"
	"poold/internal/testkit"
)

// With `providers_policy: best`, three replicas buy from the cheaper of two services. After the cheaper
// service fails most of its tasks, all replicas buy from the other one and show why.
func TestReplicasLeaveAProviderThatTurnsBad(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	options := simulatedtest.Options{Median: 200 * time.Millisecond, Sigma: 0.2, LedgerHTTP: true}
	cheap, dear := startProvider(t, options), startProvider(t, options)
	config := filepath.Join(t.TempDir(), "pools.yaml")
	const entry = "  - {name: %s, protocol: in_php, profile: 2captcha, url: '%s', key: 0123456789abcdef0123456789abcdef, first_poll: 100ms, poll_interval: 50ms, timeout: 8s, price_per_1000: %g}\n"
	writeFile(t, config, fmt.Sprintf("redis: {url: '%s', prefix: best}\nproviders_policy: best\ncurrency: USD\nproviders:\n", "redis://"+redistest.Server(t))+
		fmt.Sprintf(entry, "cheap", cheap, 1.0)+fmt.Sprintf(entry, "dear", dear, 1.3)+
		fmt.Sprintf("dead_letters: {dir: '%s'}\n", t.TempDir())+
		"targets:\n  login: {type: turnstile, sitekey: 1x00000000000000000000AA, pageurl: 'https://example.com/', owner: qa@example.com, depth: 10}\n")
	replicas := []*process{startPoold(t, config, ""), startPoold(t, config, ""), startPoold(t, config, "")}

	ctx, stop := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	defer func() { stop(); callers.Wait() }()
	for _, p := range replicas {
		callers.Go(func() {
			client := &http.Client{Transport: checking(&http.Transport{}), Timeout: 10 * time.Second}
			defer client.CloseIdleConnections()
			for ctx.Err() == nil {
				_, _, _ = p.take(ctx, client, "login", "?wait=5s")
				time.Sleep(150 * time.Millisecond)
			}
		})
	}
	sold := func() (fromCheap, fromDear int) { return len(ledger(t, cheap).Sales), len(ledger(t, dear).Sales) }
	// shareOf returns the share of the next n orders that go to the cheap service.
	shareOf := func(n int) float64 {
		c, d := sold()
		testkit.Within(t, 60*time.Second, "the next orders", func() bool {
			c2, d2 := sold()
			return c2-c+d2-d >= n
		})
		c2, d2 := sold()
		return float64(c2-c) / float64(c2-c+d2-d)
	}
	testkit.Within(t, 60*time.Second, "the first orders", func() bool { c, d := sold(); return c+d >= 40 })
	if share := shareOf(40); share < 0.85 {
		t.Errorf("%.2f of the orders go to the cheaper service, while both work", share)
	}

	setFaults(t, cheap, `[{"On": "poll", "Share": 0.9, "Kind": "code", "Code": "ERROR_CAPTCHA_UNSOLVABLE"}]`)
	for _, p := range replicas {
		testkit.Within(t, 60*time.Second, "the switch at every replica", func() bool {
			cheap, dear := compared(t, p)
			return cheap.Share < dear.Share && cheap.Solved < dear.Solved
		})
	}
	if share := shareOf(100); share > 0.08 {
		t.Errorf("%.3f of the orders go to the failing service, want about 0.03", share)
	}
}

// compared returns how a replica compares its two providers.
func compared(t *testing.T, p *process) (first, second status.ProviderType) {
	t.Helper()
	var d status.Document
	getJSON(t, p.url+"/status.json", "", &d)
	if len(d.Providers[0].Types) == 0 || len(d.Providers[1].Types) == 0 {
		return first, second
	}
	return d.Providers[0].Types[0], d.Providers[1].Types[0]
}

// setFaults replaces the faults of a service that startProvider started.
func setFaults(t *testing.T, service, faults string) {
	t.Helper()
	if !json.Valid([]byte(faults)) {
		t.Fatal("invalid faults")
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, service+"/faults", bytes.NewBufferString(faults))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if text, _ := io.ReadAll(answer.Body); answer.StatusCode >= 300 {
		t.Fatalf("PUT /faults: %d %s", answer.StatusCode, text)
	}
}
