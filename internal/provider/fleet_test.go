//go:build !race

package provider_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/pool/pooltest"
	"poold/internal/provider"
	"poold/internal/provider/simulatedtest"
	"poold/internal/purchase"
	"poold/internal/redisdb/redistest"
	"poold/internal/refill"
	"poold/internal/targets"
)

// fleet is a simulated service and its replicas in a bubble. Clients, Redis scripts and workers are
// real. In place of the network, there is a function call.
type fleet struct {
	t       *testing.T
	service *simulatedtest.Service
	redis   *redistest.Bubble
	api     string
	profile string
	all     []*replica

	mu      sync.Mutex
	empty   simulatedtest.Action // the action whose calls get an empty answer; "" = none
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
	store   *pooltest.Store
	client  *provider.Client
	buyer   *purchase.Buyer
	manager *refill.Manager
	stop    context.CancelFunc
	done    chan struct{}
}

type nobody struct{}

func (nobody) Ended(purchase.Event)             {}
func (nobody) Callback(string)                  {}
func (nobody) BudgetUsedUp(pool.Budget, string) {}
func (nobody) DeadLetter(string)                {}
func (nobody) Report(string, string)            {}

// newFleet starts n replicas with the given targets.
func newFleet(t *testing.T, n int, api, profile string, options simulatedtest.Options, list ...targets.Target) *fleet {
	t.Helper()
	options.Key, options.Seed = "key", 1
	if options.Median == 0 {
		options.Median, options.Min = 8*time.Second, 8*time.Second
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
	client, err := provider.New(provider.Config{
		Name: "main", API: f.api, Profile: f.profile, URL: "http://service.example.com", Key: "key",
		FirstPoll: 5 * time.Second, PollInterval: 5 * time.Second,
	})
	if err != nil {
		f.t.Fatal(err)
	}
	r := &replica{client: client.Over(f), done: make(chan struct{})}
	r.store, err = pooltest.Open(pool.Options{
		Addresses: "redis://bubble", Prefix: "test", Log: quiet, Dial: f.redis.Dial,
		OnChange: func(id captcha.ID) {
			if r.manager != nil {
				r.manager.Wake(id)
			}
		},
	})
	if err != nil {
		f.t.Fatal(err)
	}
	r.buyer = purchase.NewBuyer(r.store, "no letters", nobody{}, quiet)
	r.buyer.SetProviders([]purchase.Entry{{Provider: r.client, Concurrency: 50, Price: func(captcha.Type) float64 { return 0.001 }}})
	r.manager = refill.NewManager(r.store, r.store, r.buyer, func(captcha.ID, purchase.Result) {}, quiet)
	r.manager.Apply(f.t.Context(), &targets.Set{Targets: list})
	ctx, stop := context.WithCancel(f.t.Context())
	r.stop = stop
	lasting, end := context.WithCancel(f.t.Context())
	var group sync.WaitGroup
	group.Go(func() { _ = r.store.Run(lasting) })
	group.Go(func() { _ = r.buyer.Run(lasting) })
	go func() {
		defer close(r.done)
		_ = r.manager.Run(ctx)
		end()
		group.Wait()
	}()
	f.all = append(f.all, r)
	synctest.Wait()
	return r
}

// stop stops a replica as SIGTERM does.
func (f *fleet) stop(r *replica) {
	r.stop()
	<-r.done
	_ = r.store.Close()
	for i := range f.all {
		if f.all[i] == r {
			f.all = append(f.all[:i], f.all[i+1:]...)
			break
		}
	}
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
	action := map[string]simulatedtest.Action{
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
func (f *fleet) count(action simulatedtest.Action, since time.Time) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.calls {
		if c.path == string(action) && !c.at.Before(since) {
			n++
		}
	}
	return n
}

func (f *fleet) stock(t targets.Target) pool.Stock {
	f.t.Helper()
	s, err := f.all[0].store.Look(f.t.Context(), t.ID, t.Margin, 0)
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

// status returns the status of a target at a replica.
func (f *fleet) status(r *replica, name string) refill.Status {
	f.t.Helper()
	if err := r.manager.Refresh(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	s, known := r.manager.Status(name)
	if !known {
		f.t.Fatalf("no status of %s", name)
	}
	return s
}

// provider returns the state of the provider at a replica.
func (f *fleet) provider(r *replica) provider.State {
	return r.buyer.Providers(f.t.Context(), time.Now())[0].State
}

// siteTarget returns a target with the given depth. The site key equals the name.
func siteTarget(name string, depth int) targets.Target {
	id := captcha.Identity{Type: captcha.RecaptchaV2, Sitekey: name, Pageurl: "https://example.com/"}
	return targets.Target{
		Name: name, Identity: id, ID: id.ID(), Depth: depth,
		Lifetime: 120 * time.Second, Margin: 40 * time.Second, Owner: "qa@example.com",
	}
}
