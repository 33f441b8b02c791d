//go:build !race

package provider_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"slices"
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

// fleet is a simulated service and its replicas in a bubble. Clients, Redis scripts and workers are
// real. In place of the network, there is a function call.
type fleet struct {
	t       *testing.T
	service *simulatedtest.Service
	redis   *redistest.Bubble
	api     targets.Protocol
	profile string
	all     []*replica

	mu      sync.Mutex
	empty   wire.Action // the action whose calls get an empty answer; "" = none
	submits map[string][]time.Time
	calls   []call
}

// call is a call that reached the service.
type call struct {
	path string
	at   time.Time
}

// replica is one daemon without its HTTP server.
type replica struct {
	pool    *pool.Pool
	buyer   *purchase.Buyer
	manager *refill.Manager
	stop    func() // as SIGTERM does
}

type nobody struct{}

func (nobody) Ended(purchase.Purchase, time.Duration) {}
func (nobody) Count(_, _, _ string)                   {}

// newFleet starts n replicas with the given targets.
func newFleet(t *testing.T, n int, api targets.Protocol, profile string, options simulatedtest.Setup,
	list ...targets.Target) *fleet {
	t.Helper()
	options.Key, options.Seed = "key", 1
	if options.Median == 0 {
		options.Median = 8 * time.Second
	}
	f := &fleet{t: t, api: api, profile: profile, redis: redistest.InBubble(t), submits: map[string][]time.Time{}}
	f.service = simulatedtest.New(options)
	t.Cleanup(f.service.Close)
	for range n {
		f.start(list...)
	}
	return f
}

func (f *fleet) start(list ...targets.Target) *replica {
	f.t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	client := provider.New(targets.Provider{
		Timeout: 3 * time.Minute,
		Name:    "main", Protocol: f.api, Service: f.profile, URL: "http://service.example.com", Key: "key",
		FirstPoll: 5 * time.Second, PollInterval: 5 * time.Second,
	}, f, func(string, string) {})
	db, _ := f.redis.Client(redis.Options{})
	r := &replica{}
	r.pool = pool.New(pool.Config{Slow: db, Fast: db, Prefix: "test", Replica: strings.Repeat("r", 1+len(f.all)),
		Log: quiet, Changed: func(id captcha.ID) { r.manager.Changed(id) }})
	r.buyer = purchase.New(purchase.Config{Pool: r.pool, Letters: "no letters", Observer: nobody{}, Log: quiet})
	price := func(captcha.Type) float64 { return 0.001 }
	r.buyer.SetProviders([]purchase.Listing{{Provider: client, Fingerprint: "k", Concurrency: 50, Price: price}})
	r.manager = refill.New(r.pool, r.buyer, quiet)
	r.buyer.Turn = r.manager.Changed
	r.manager.Apply(&targets.Set{Targets: list})
	stop, stopBuying := testkit.Run(f.t, r.buyer.Run), testkit.Run(f.t, r.manager.Run)
	r.stop = func() { stopBuying(); stop(); _ = db.Close() }
	f.all = append(f.all, r)
	synctest.Wait()
	return r
}

// stop stops a replica.
func (f *fleet) stop(r *replica) {
	r.stop()
	f.all = slices.DeleteFunc(f.all, func(other *replica) bool { return other == r })
}

func (f *fleet) close() {
	for len(f.all) > 0 {
		f.stop(f.all[0])
	}
}

// advance sleeps, and then waits until all goroutines are blocked again.
func (f *fleet) advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// RoundTrip hands a call to the service.
func (f *fleet) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if trace := httptrace.ContextClientTrace(r.Context()); trace != nil {
		trace.WroteHeaders()
	}
	action := map[string]wire.Action{
		"/in.php": simulatedtest.Submit, "/createTask": simulatedtest.Submit, "/getTaskResult": simulatedtest.Poll,
	}[r.URL.Path]
	text := string(body)
	if r.URL.Path == "/res.php" && strings.Contains(text, "action=get&") {
		action = simulatedtest.Poll
	}
	f.mu.Lock()
	f.calls = append(f.calls, call{string(action), time.Now()})
	if action == simulatedtest.Submit {
		for _, site := range []string{"site-a", "site-b", "site-c"} {
			if strings.Contains(text, site) {
				f.submits[site] = append(f.submits[site], time.Now())
			}
		}
	}
	empty := f.empty != "" && f.empty == action
	f.mu.Unlock()
	w := httptest.NewRecorder()
	if !empty {
		request := httptest.NewRequestWithContext(r.Context(), r.Method, r.URL.String(), strings.NewReader(text))
		request.Header = r.Header
		f.service.ServeHTTP(w, request)
	}
	return w.Result(), nil
}

// submitTimes returns the times of the submits for a site key.
func (f *fleet) submitTimes(site string) []time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]time.Time(nil), f.submits[site]...)
}

// count returns the number of calls of an action since the given time.
func (f *fleet) count(action wire.Action, since time.Time) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.calls {
		if c.path == string(action) && !c.at.Before(since) {
			n++
		}
	}
	return n
}

// counts returns the counts of a target that a replica reads.
func (f *fleet) counts(r *replica, t targets.Target) pool.Counts {
	f.t.Helper()
	c, err := r.pool.Counts(f.t.Context(), pool.Query{ID: t.ID, Margin: t.Margin})
	testkit.NoError(f.t, err)
	return c
}

func (f *fleet) fresh(t targets.Target) int { return f.counts(f.all[0], t).Fresh }

// status returns the status of a target at a replica.
func (f *fleet) status(r *replica, t targets.Target) refill.Status {
	c := f.counts(r, t)
	return refill.StatusOf(&t, &c)
}

// state returns the state of the provider at a replica.
func (f *fleet) state(r *replica) purchase.ProviderStatus { return r.buyer.Providers(f.t.Context())[0] }

// siteTarget returns a target with the given depth. The site key equals the name.
func siteTarget(name string, depth int) targets.Target {
	id := captcha.Identity{Type: captcha.RecaptchaV2, Sitekey: name, Pageurl: "https://example.com/"}
	return targets.Target{
		Name: name, Identity: id, ID: id.ID(), Depth: depth,
		Lifetime: 120 * time.Second, Margin: 40 * time.Second, Owner: "qa@example.com",
	}
}
