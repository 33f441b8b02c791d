//go:build !race

package provider_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/provider"
	"poold/internal/provider/simulatedtest"
	"poold/internal/provider/wire"
	"poold/internal/purchase"
	"poold/internal/redisdb/redistest"
	"poold/internal/refill"
	"poold/internal/targets"
	"poold/internal/testkit"
)

const (
	// maxPerMinute is the maximum number of submits of a target per minute while all submits fail. The first submits
	// do not count.
	maxPerMinute, firstSubmits = 12, 3
	// busyCode means a capacity fault.
	busyCode = "ERROR_NO_SLOT_AVAILABLE"
)

// While each call of one kind fails, the submits of a target are limited. The tested faults are one code of each class
// (TestEveryCode has the class of each code), unknown codes, and invalid answers, of which
// TestAnInvalidAnswerLeavesTheOutcomeOpen has all.
func TestNoFaultMakesPooldHammer(t *testing.T) {
	t.Parallel()
	code := func(code string) simulatedtest.Fault {
		return simulatedtest.Fault{Kind: simulatedtest.Code, Code: code}
	}
	for name, fault := range map[string]simulatedtest.Fault{
		"a refusal": code("ERROR_CAPTCHA_UNSOLVABLE"), "unknown code": code("ERROR_OF_TOMORROW"),
		"parameters": code("ERROR_WRONG_GOOGLEKEY"), "a link": code("https://example.com/help"),
		"account": code("IP_BANNED"), "busy": code(busyCode), "html": {Kind: simulatedtest.HTML}, "empty": {},
		"4xx": {Kind: simulatedtest.Status, Status: http.StatusNotFound},
		"5xx": {Kind: simulatedtest.Status, Status: http.StatusBadGateway},
	} {
		for _, c := range []struct {
			api      targets.Protocol
			service  string
			replicas int
			refill   targets.Refill
		}{
			{targets.ProtocolInPHP, "captchaai", 1, targets.RefillFixed},
			{targets.ProtocolInPHP, "captchaai", 3, targets.RefillAdaptive},
			{targets.ProtocolCreateTask, "2captcha", 1, targets.RefillAdaptive},
			{targets.ProtocolCreateTask, "2captcha", 3, targets.RefillFixed},
			{targets.ProtocolInPHP, "captchaai", 1, targets.RefillAdaptive},
			{targets.ProtocolInPHP, "captchaai", 3, targets.RefillFixed},
			{targets.ProtocolCreateTask, "2captcha", 1, targets.RefillFixed},
			{targets.ProtocolCreateTask, "2captcha", 3, targets.RefillAdaptive},
		} {
			for _, on := range []wire.Action{simulatedtest.Submit, simulatedtest.Poll} {
				t.Run(fmt.Sprintf("%s/%s/%s/%d/%s", c.api, name, on, c.replicas, c.refill), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						fault.On = on
						made := submitsDuring(t, fault, c.replicas, c.refill,
							targets.Provider{Name: "main", Protocol: c.api, Service: c.service})
						if fault.Code == busyCode && on == simulatedtest.Submit {
							return // the target gets no slot, because the provider is busy
						}
						checkBound(t, made)
					})
				})
			}
		}
	}
}

// checkBound checks the times of submits.
func checkBound(t *testing.T, made []time.Time) {
	t.Helper()
	testkit.AtLeast(t, "submits", len(made), 1)
	for i := firstSubmits; i+maxPerMinute < len(made); i++ {
		if took := made[i+maxPerMinute].Sub(made[i]); took < time.Minute {
			t.Fatalf("%d submits in the %v after %v, of %d", maxPerMinute+1, took, made[i].Sub(made[0]), len(made))
		}
	}
}

// submitsDuring runs replicas with one target, while a fault of the service lasts, and returns the times of the
// submits. A fault without a kind is an empty answer. Clients, scripts of Redis and workers are real.
func submitsDuring(t *testing.T, fault simulatedtest.Fault, replicas int, mode targets.Refill,
	p targets.Provider) []time.Time {
	t.Helper()
	setup, service := simulatedtest.Setup{Key: "key", Seed: 1, Median: 8 * time.Second}, new(faulty)
	if fault.Kind == "" {
		service.empty = fault.On
	} else {
		setup.Faults = []simulatedtest.Fault{fault}
	}
	service.core = simulatedtest.New(setup)
	t.Cleanup(service.core.Close)
	p.URL, p.Key, p.Timeout = "http://service.example.com", "key", 3*time.Minute
	p.FirstPoll, p.PollInterval = 5*time.Second, 5*time.Second
	id := captcha.Identity{Type: captcha.RecaptchaV2, Sitekey: "site", Pageurl: "https://example.com/"}
	login := targets.Target{
		Name: "login", Identity: id, ID: id.ID(), Depth: 5, Min: 2, Refill: mode, HitRate: 0.98, MissCost: 3,
		Lifetime: 120 * time.Second, Margin: 40 * time.Second, Owner: "qa@example.com",
	}
	redisServer, quiet := redistest.InBubble(t), slog.New(slog.DiscardHandler)
	for n := range replicas {
		var manager *refill.Manager
		db, _ := redisServer.Client(redis.Options{})
		stock := pool.New(pool.Config{Slow: db, Fast: db, Prefix: "test", Replica: fmt.Sprint("r", n), Log: quiet,
			Changed: func(id captcha.ID) { manager.Changed(id) }})
		buyer := purchase.New(purchase.Config{Pool: stock, Letters: "no letters", Observer: nobody{}, Log: quiet})
		buyer.SetProviders([]purchase.Listing{{
			Provider: provider.New(p, service, func(string, string) {}), Fingerprint: "k", Concurrency: 50,
			Price: func(captcha.Type) float64 { return 0.001 },
		}})
		manager = refill.New(stock, buyer, quiet)
		buyer.Turn = manager.Changed
		manager.Apply(&targets.Set{Targets: []targets.Target{login}})
		t.Cleanup(func() { _ = db.Close() })
		testkit.Run(t, buyer.Run, manager.Run)
	}
	time.Sleep(80 * time.Second)
	service.mu.Lock()
	defer service.mu.Unlock()
	return service.submits
}

type nobody struct{}

func (nobody) Ended(purchase.Purchase, time.Duration) {}
func (nobody) Count(_, _, _ string)                   {}

// faulty carries calls to a simulated service without a network, and notes the times of submits.
type faulty struct {
	core    *simulatedtest.Service
	empty   wire.Action // its calls get an empty answer; "" = none
	mu      sync.Mutex
	submits []time.Time
}

func (f *faulty) RoundTrip(r *http.Request) (*http.Response, error) {
	httptrace.ContextClientTrace(r.Context()).WroteHeaders()
	action := simulatedtest.Poll
	if strings.Contains("/in.php /createTask", r.URL.Path) {
		action = simulatedtest.Submit
		f.mu.Lock()
		f.submits = append(f.submits, time.Now())
		f.mu.Unlock()
	}
	w := httptest.NewRecorder()
	if action != f.empty {
		f.core.ServeHTTP(w, r)
	}
	return w.Result(), nil
}
