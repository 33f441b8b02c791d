package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"poold/internal/provider/simulatedtest"
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

// A provider answers the calls for one target with wrong and hostile responses of all kinds. The
// other target is not affected, the number of calls is limited, and no secret leaks.
func TestARudeProvider(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	const rude = "1x00000000000000000000BB"
	isRude := func(c simulatedtest.Call) bool { return c.Identity.Sitekey == rude }
	for _, fault := range []simulatedtest.Fault{
		{Kind: simulatedtest.HTML}, {Kind: simulatedtest.Huge}, {Kind: simulatedtest.Slow}, {Kind: simulatedtest.Status},
		{Kind: simulatedtest.Redirect}, {Kind: simulatedtest.Types}, {Kind: simulatedtest.OtherTask, Accepted: true}, {Kind: simulatedtest.Hang},
	} {
		t.Run(string(fault.Kind), func(t *testing.T) {
			t.Parallel()
			o := quick()
			service := simulatedtest.New(o)
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(context.Background())
			served := make(chan error, 1)
			go func() { served <- service.Serve(ctx, listener) }()
			defer func() {
				stop()
				if err := <-served; err != nil {
					t.Error(err)
				}
			}()
			config := filepath.Join(t.TempDir(), "pools.yaml")
			writeFile(t, config, fmt.Sprintf(`
redis: {url: "redis://%s", prefix: rude}
providers:
  - {name: service, protocol: in_php, profile: 2captcha, url: "http://%s", key: 0123456789abcdef0123456789abcdef,
     first_poll: 200ms, poll_interval: 100ms, timeout: 3s, concurrency: 10}
defaults: {owner: qa@example.com, depth: 3}
targets:
  fair: {type: turnstile, sitekey: 1x00000000000000000000AA, pageurl: "https://example.com/"}
  rude: {type: turnstile, sitekey: %s, pageurl: "https://example.com/"}
`, redistest.Server(t), listener.Addr(), rude))
			p := startPoold(t, config, "")
			calm := func() bool {
				s := p.target("fair")
				return s.Fresh >= s.Depth && s.InFlight == 0
			}
			testkit.Within(t, 20*time.Second, "the pools to be full", func() bool {
				r := p.target("rude")
				return calm() && r.Fresh >= r.Depth && r.InFlight == 0
			})
			goroutines := p.metrics()["go_goroutines"]
			fault.On, fault.When = simulatedtest.Submit, isRude
			service.SetFaults(fault)
			before := service.Totals()
			for range 3 {
				if _, code, err := p.take(t.Context(), http.DefaultClient, "rude", "?wait=0s"); code != http.StatusOK {
					t.Fatal(code, err)
				}
			}
			began := time.Now()
			taken := 0
			for time.Since(began) < 12*time.Second {
				if _, code, err := p.take(t.Context(), http.DefaultClient, "fair", "?wait=20s"); code != http.StatusOK {
					t.Errorf("the other target: %d, %v", code, err)
				}
				taken++
				time.Sleep(time.Second)
			}
			if took := time.Since(began); taken < 4 {
				t.Errorf("%d tokens of the other target in %v", taken, took)
			}
			after := service.Totals()
			// A response that poold cannot interpret leaves an order with an unknown outcome. At
			// most 3 such orders exist at a time, because the depth is 3. Each ends after 3 s.
			if n := after.ByAction[simulatedtest.Submit] - before.ByAction[simulatedtest.Submit]; n > taken+20 {
				t.Errorf("%d submits in 12 s for %d tokens of the other target", n, taken)
			}
			service.SetFaults()
			testkit.Within(t, 60*time.Second, "the target to heal", func() bool {
				r := p.target("rude")
				return calm() && r.Fresh >= r.Depth && r.InFlight == 0
			})
			p.balance()
			testkit.Within(t, 30*time.Second, "the goroutines to end", func() bool { return p.metrics()["go_goroutines"] <= goroutines+4 })
			if err := p.stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// load sends requests for tokens. It counts the outcomes.
type load struct {
	served, failed atomic.Int64 // number of tokens, and of answers that are neither a token nor a 503
	why            atomic.Value // reason of the last failure
	empty, slow    atomic.Int64 // number of responses with 503, and of those that took longer than 300 ms
	workers        sync.WaitGroup
}

// run starts concurrent callers that request tokens until ctx ends.
func (l *load) run(ctx context.Context, p *process, callers int, pause time.Duration) {
	for range callers {
		l.workers.Go(func() {
			client := &http.Client{Timeout: 10 * time.Second, Transport: checking(&http.Transport{})}
			defer client.CloseIdleConnections()
			for ctx.Err() == nil {
				began := time.Now()
				switch _, code, err := p.take(context.WithoutCancel(ctx), client, "login", "?wait=0s"); code {
				case http.StatusOK:
					l.served.Add(1)
				case http.StatusServiceUnavailable:
					l.empty.Add(1)
					if time.Since(began) > 300*time.Millisecond {
						l.slow.Add(1)
					}
				default:
					l.failed.Add(1)
					l.why.Store(fmt.Sprint(code, err))
				}
				time.Sleep(pause)
			}
		})
	}
}

// Redis is gone for ten seconds under load. The first calls get a 503 within a second, and later
// calls get a 503 immediately. Nothing is bought. Within two seconds after Redis is back, tokens
// are handed out.
func TestRedisIsGoneUnderLoad(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	address, network := cuttable(t)
	w := newWorld(t, quick(), terms{depth: 40, redis: address, provider: ", concurrency: 30"})
	p := w.start(t)
	w.atRest(t, p, 30*time.Second)
	goroutines := p.metrics()["go_goroutines"]
	l := &load{}
	ctx, end := context.WithCancel(t.Context())
	defer end()
	l.run(ctx, p, 20, 100*time.Millisecond)
	time.Sleep(2 * time.Second)

	network.Stop()
	time.Sleep(1500 * time.Millisecond) // the first calls may take a second
	empty, slow := l.empty.Load(), l.slow.Load()
	sold := ledger(t, w.provider).Totals.Submitted
	before := l.served.Load()
	time.Sleep(8500 * time.Millisecond)
	empty, slow = l.empty.Load()-empty, l.slow.Load()-slow // on a busy machine some answers take their time
	if empty == 0 || slow > empty/2 {
		t.Errorf("%d of %d callers waited for a 503 while Redis was known to be away", slow, empty)
	}
	if n := ledger(t, w.provider).Totals.Submitted; n != sold {
		t.Errorf("%d tasks were bought without Redis", n-sold)
	}
	if n := l.served.Load(); n != before {
		t.Errorf("%d tokens were handed out without Redis", n-before)
	}
	if err := network.Start(); err != nil {
		t.Fatal(err)
	}
	testkit.Within(t, 20*time.Second, "tokens to be handed out again", func() bool { return l.served.Load() > before })
	time.Sleep(2 * time.Second)
	end()
	l.workers.Wait()
	w.atRest(t, p, 30*time.Second)
	if l.failed.Load() > 0 {
		t.Errorf("%d requests failed otherwise: %v", l.failed.Load(), l.why.Load())
	}
	bought, books := p.balance(), ledger(t, w.provider)
	if bought != books.Totals.Submitted {
		t.Errorf("poold counts %d bought, the provider sold %d", bought, books.Totals.Submitted)
	}
	testkit.Within(t, 20*time.Second, "the goroutines to end", func() bool { return p.metrics()["go_goroutines"] <= goroutines+4 })
	t.Logf("%d served, %d times 503, %d bought", l.served.Load(), l.empty.Load(), bought)
}
