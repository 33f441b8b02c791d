package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool/redistest"
	"poold/internal/provider/simulated"
)

const faultConfig = `
redis: {url: "redis://%s", prefix: fault}
providers:
  - {name: service, api: legacy, profile: 2captcha, url: "%s", key: 0123456789abcdef0123456789abcdef, concurrency: %d, first_poll: 200ms, poll_interval: 100ms, timeout: 20s}
targets:
  login: {type: turnstile, sitekey: 1x00000000000000000000AA, pageurl: "https://example.com/", owner: qa@example.com, depth: %d}
`

var faultIdentity = captcha.Identity{Type: captcha.Turnstile, Sitekey: "1x00000000000000000000AA", Pageurl: "https://example.com/"}.ID()

// startFaulty starts a Redis, a provider and a function that starts replicas.
func startFaulty(t *testing.T, concurrency, depth int) (service string, replica func() *process) {
	t.Helper()
	redisAddress := redistest.Server(t)
	service = startProvider(t, simulated.Options{
		Median: 200 * time.Millisecond, Sigma: 0.4, Min: 50 * time.Millisecond, Max: time.Second,
		FailShare: 0.1, Seed: 11, Ledger: true, LedgerHTTP: true, Flavour: simulated.TwoCaptcha,
	})
	config := filepath.Join(t.TempDir(), "pools.yaml")
	writeFile(t, config, fmt.Sprintf(faultConfig, redisAddress, service, concurrency, depth))
	return service, func() *process { return startPoold(t, config, "") }
}

// Four replicas start at once on an empty Redis and together keep one depth,
// within the provider's concurrency.
func TestReplicasKeepOneDepth(t *testing.T) {
	const concurrency, depth = 7, 25
	service, replica := startFaulty(t, concurrency, depth)
	replicas := make([]*process, 4)
	var all sync.WaitGroup
	for i := range replicas {
		all.Go(func() { replicas[i] = replica() })
	}
	all.Wait()
	for _, p := range replicas {
		warm(t, p, "login", 20*time.Second)
	}
	books := ledger(t, service)
	if n := bought(books, faultIdentity); n != depth {
		t.Errorf("%d tokens were bought for a depth of %d", n, depth)
	}
	if books.Totals.PeakInFlight > concurrency {
		t.Errorf("%d tasks at once for a concurrency of %d", books.Totals.PeakInFlight, concurrency)
	}
	for _, p := range replicas {
		if err := p.stop(); err != nil {
			t.Error(err)
		}
	}
}

// 200 callers over two replicas hang up while they wait, some in the very moment
// of a landing: whatever was solved is with a caller or in the stock.
func TestHangingUpOverHTTP(t *testing.T) {
	_, replica := startFaulty(t, 60, 100)
	replicas := []*process{replica(), replica()}
	random := rand.New(rand.NewPCG(5, 6))
	var received atomic.Int64
	var all sync.WaitGroup
	for i := range 200 {
		patience := time.Duration(random.IntN(1200)) * time.Millisecond
		all.Go(func() {
			ctx, hangUp := context.WithTimeout(t.Context(), patience)
			defer hangUp()
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			if _, code, err := replicas[i%2].take(ctx, client, "login", "?wait=30s"); err == nil && code == http.StatusOK {
				received.Add(1)
			}
		})
	}
	all.Wait()
	// Orders that were placed for callers who left stay: there may be a surplus.
	within(t, 20*time.Second, "the orders to end", func() bool {
		s := replicas[0].target("login")
		return s.Fresh >= s.Depth && s.InFlight == 0
	})
	var s targetStatus
	within(t, 10*time.Second, "every token to be somewhere and no ticket to be left", func() bool {
		s = replicas[1].target("login")
		return s.Waiting == 0 && s.Solved == s.Hits+s.Waited-s.Returned+int64(s.Fresh)+s.Expired
	})
	// An answer may reach the socket of a caller that has just closed it.
	kept := s.Hits + s.Waited - s.Returned
	if kept < received.Load() || kept > received.Load()+20 {
		t.Errorf("%d callers have a token, %d were counted: %+v", received.Load(), kept, s)
	}
	t.Logf("%d callers got a token, %d tokens were given back", received.Load(), s.Returned)
}
