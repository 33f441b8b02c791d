//go:build !race

package deploy_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"poold/internal/daemontest"
	"poold/internal/provider/simulatedtest"
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

// Three replicas behind a load balancer are restarted one after the other, at 80 requests a second.
// A client that repeats requests after a 503 sees no failure. No token is lost or handed out twice. If the
// environment variable POOLD_OTHER names another binary, it replaces this one, and then this one replaces it
// (bench/rolling).
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	provider := daemontest.Provider(t, simulatedtest.Setup{Median: 300 * time.Millisecond, LedgerHTTP: true})
	config := fmt.Sprintf("redis: {url: 'redis://%s'}\n"+
		"server: {keys: [{name: ci, key: "+key+", scopes: [token, status]}]}\n"+
		"providers: [{name: s, url: '%s', key: a-key, price_per_1000: 1, concurrency: 1000, first_poll: 500ms, "+
		"poll_interval: 500ms}]\ntargets:\n"+
		"  login: {type: turnstile, sitekey: k, pageurl: 'https://example.com/', owner: qa@example.com, depth: 150}\n",
		redistest.Server(t), provider)
	start := func(listen string, wrap []string) *watched {
		return watch(t, daemontest.Settings{Config: config, Listen: listen, Wrap: wrap})
	}
	rounds := [][]string{nil}
	if other := os.Getenv("POOLD_OTHER"); other != "" {
		rounds = [][]string{{"sh", "-c", "exec '" + other + `' "$@"`}, nil}
	}
	b := &balancer{t: t}
	var replicas []*watched
	for range 3 {
		p := start("", nil)
		replicas = append(replicas, p)
		b.watch(p.URL)
	}
	testkit.Within(t, 40*time.Second, "a full pool", func() bool { return replicas[0].state("login").Fresh >= 150 })

	load := &steadyLoad{t: t, method: http.MethodGet, url: b.serve() + "/pool/login/token?wait=10s", key: key,
		tokens: map[string]bool{}}
	stop := load.start(80, &http.Transport{MaxIdleConnsPerHost: 80})
	for _, wrap := range rounds {
		for i, p := range replicas {
			time.Sleep(time.Second)
			testkit.NoError(t, p.Stop())
			replicas[i] = start(p.URL[len("http://"):], wrap)
		}
	}
	time.Sleep(time.Second)
	stop()

	var sold map[string]bool
	var last state
	defer func() { t.Logf("sold %d, handed out %d, status %+v", len(sold), len(load.tokens), last) }()
	testkit.Within(t, 30*time.Second, "the last orders, and a status that has them", func() bool {
		sold = map[string]bool{}
		for _, sale := range ledger(t, provider).Sales {
			if !sale.Failed {
				sold[sale.TokenSHA256] = true
			}
		}
		last = replicas[0].state("login")
		// On a busy machine some tokens grow too old. A starved replica that stops may not be able to give back the
		// token of a call that it answered with a 503.
		gone := len(sold) - len(load.tokens) - last.Fresh - last.Expired
		return last.InFlight == 0 && gone >= 0 && gone <= int(load.again.Load())
	})
	for token := range load.tokens {
		if !sold[token] {
			t.Error("a token was handed out that the service did not sell")
		}
	}
	t.Logf("%d requests, %d of them repeated after a 503", len(load.tokens), load.again.Load())
}

// balancer sends each request to the next replica whose /readyz answers 200. If there is none, because a starved
// Redis may count as down for a moment, it answers 503.
type balancer struct {
	t        *testing.T
	replicas []*backend
	next     atomic.Int64
}

type backend struct {
	url *url.URL
	up  atomic.Bool
}

// watch adds a replica, and checks its /readyz five times a second until the test ends.
func (b *balancer) watch(address string) {
	b.t.Helper()
	u, err := url.Parse(address)
	testkit.NoError(b.t, err)
	r := &backend{url: u}
	r.up.Store(true)
	b.replicas = append(b.replicas, r)
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	go func() {
		for b.t.Context().Err() == nil {
			time.Sleep(200 * time.Millisecond)
			response, err := client.Get(address + "/readyz")
			if err == nil {
				_ = response.Body.Close()
			}
			r.up.Store(err == nil && response.StatusCode == http.StatusOK)
		}
	}()
}

// serve returns the balancer's URL.
func (b *balancer) serve() string {
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			for range b.replicas {
				if to := b.replicas[int(b.next.Add(1))%len(b.replicas)]; to.up.Load() {
					r.SetURL(to.url)
					return
				}
			}
		},
		Transport: &http.Transport{MaxIdleConnsPerHost: 200, IdleConnTimeout: 5 * time.Second},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			// A busy balancer may not have seen yet that the replica is gone. Nothing was sent.
			if r.URL.Host == "" || errors.Is(err, syscall.ECONNREFUSED) {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			b.t.Errorf("the balancer got no response from %s: %v", r.URL.Host, err)
			w.WriteHeader(http.StatusBadGateway)
		},
	}
	server := httptest.NewServer(proxy)
	b.t.Cleanup(server.Close)
	return server.URL
}

// steadyLoad takes tokens at a steady rate, however long the responses take.
type steadyLoad struct {
	t      *testing.T
	method string
	url    string
	again  atomic.Int64 // number of repeated requests

	using sync.RWMutex // held while a request uses the key
	key   string

	mu     sync.Mutex
	tokens map[string]bool // hashes of the tokens
}

// start begins to send requests. The function stop returns when all requests have a response.
func (l *steadyLoad) start(perSecond int, transport *http.Transport) (stop func()) {
	client := &http.Client{Transport: transport, Timeout: 30 * time.Second}
	ctx, cancel := context.WithCancel(l.t.Context())
	var requests sync.WaitGroup
	requests.Go(func() {
		began := time.Now()
		for n := 0; ctx.Err() == nil; n++ {
			time.Sleep(time.Until(began.Add(time.Duration(n) * time.Second / time.Duration(perSecond))))
			requests.Go(func() {
				for l.t.Context().Err() == nil && !l.take(client) {
					l.again.Add(1)
					time.Sleep(time.Second) // about the Retry-After: a storm of repetitions would starve a busy machine
				}
			})
		}
	})
	stop = func() {
		cancel()
		requests.Wait()
		client.CloseIdleConnections()
	}
	l.t.Cleanup(stop) // also if the test fails before
	return stop
}

// served returns the number of tokens so far.
func (l *steadyLoad) served() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.tokens)
}

// setKey changes the key when no request with the old one is left.
func (l *steadyLoad) setKey(key string) {
	l.using.Lock()
	defer l.using.Unlock()
	l.key = key
}

// take requests a token. It returns false after a 503.
func (l *steadyLoad) take(client *http.Client) bool {
	request, err := http.NewRequest(l.method, l.url, nil)
	if err != nil {
		l.t.Error(err)
		return true
	}
	l.using.RLock()
	defer l.using.RUnlock()
	request.Header.Set("Authorization", "Bearer "+l.key)
	request.Header.Set("Accept", "text/plain")
	response, err := client.Do(request)
	if err != nil {
		l.t.Error(err)
		return true
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if response.StatusCode == http.StatusServiceUnavailable {
		return false
	}
	if err != nil || response.StatusCode != http.StatusOK {
		l.t.Errorf("%s, %v: %s", response.Status, err, body)
		return true
	}
	sum := sha256.Sum256(bytes.TrimSuffix(body, []byte("\n")))
	token := hex.EncodeToString(sum[:])
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tokens[token] {
		l.t.Error("a token was handed out twice")
	}
	l.tokens[token] = true
	return true
}
