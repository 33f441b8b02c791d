package main

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"poold/internal/daemontest"
	"poold/internal/provider/simulatedtest"
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

// cuttable starts a Redis server behind a proxy that can cut the network.
func cuttable(t *testing.T) (address string, network *toxiproxy.Proxy) {
	t.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	network = toxiproxy.NewProxy(server, "redis", "127.0.0.1:0", redistest.Server(t))
	testkit.NoError(t, network.Start())
	t.Cleanup(network.Stop)
	return "redis://" + network.Listen, network
}

// letters lists the files that contain dead letters.
func letters(t *testing.T, w *world) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(w.letters, "*.json"))
	testkit.NoError(t, err)
	return files
}

// While Redis is unreachable, callbacks are stored on disk and get the status 200. The replica is killed.
// When Redis is reachable again, every token comes into the stock exactly once.
func TestCallbacksWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	const depth = 6
	address, network := cuttable(t)
	door := newCallbackDoor(t)
	o := quick()
	o.Median, o.Sigma = 4*time.Second, 0
	// Polls would collect the tokens too, so the configuration file delays the polls beyond the
	// end of the test.
	w := newWorld(t, o, terms{depth: depth, timeout: "60s", redis: address, provider: `, callback_url: "` + door.url +
		`", fallback_after: 50s`})
	p := w.start(t)
	door.setReplicas(p)
	testkit.Within(t, 20*time.Second, "the orders to be submitted", func() bool {
		return ledger(t, w.provider).Totals.Submitted == depth
	})
	network.Stop()
	testkit.Within(t, 20*time.Second, "the callbacks to be kept", func() bool { return len(letters(t, w)) == depth })
	p.Signal(syscall.SIGKILL)
	p.waitForDeath(5 * time.Second)
	testkit.NoError(t, network.Start())
	p = w.start(t)
	w.atRest(t, p, 20*time.Second)
	testkit.Equal(t, "letters that are left", len(letters(t, w)), 0)
	books := ledger(t, w.provider)
	// One poll completes a callback, because the service leaves the user agent out of it.
	if books.Totals.Submitted != depth || books.Totals.ByAction[simulatedtest.Poll] > depth {
		t.Errorf("%d tasks bought for a depth of %d, %d polls", books.Totals.Submitted, depth,
			books.Totals.ByAction[simulatedtest.Poll])
	}
	for _, sale := range books.Sales {
		testkit.Equal(t, "answers with 200 to the callback of task "+sale.Task, sale.CalledBack, 1)
	}
	testkit.Equal(t, "bought by poold's count", p.balance(), depth)
	testkit.AtLeast(t, "tokens in stock", w.drain(t, p, map[string]bool{}), depth)
}

// callbackDoor is the public address of the replicas, like the address of a load balancer. It
// forwards each callback to the first replica that listens. If the replica dies during
// a callback, the door does not repeat the callback. A nil door forwards nothing.
type callbackDoor struct {
	url string

	mu       sync.Mutex
	replicas []*process
}

func newCallbackDoor(t testing.TB) *callbackDoor {
	t.Helper()
	d := &callbackDoor{}
	server := httptest.NewServer(d)
	t.Cleanup(server.Close)
	d.url = server.URL
	return d
}

func (d *callbackDoor) setReplicas(replicas ...*process) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.replicas = replicas
}

func (d *callbackDoor) listening() []*process {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.replicas
}

func (d *callbackDoor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	for range 200 { // a callback may arrive before the test has set the replicas
		if len(d.listening()) > 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	client := &http.Client{Timeout: 5 * time.Second,
		Transport: daemontest.Checking(&http.Transport{DisableKeepAlives: true})}
	for _, p := range d.listening() {
		request, _ := http.NewRequest(r.Method, p.URL+r.URL.RequestURI(), bytes.NewReader(body)) // both are valid
		request.Header = r.Header
		response, err := client.Do(request)
		switch {
		case errors.Is(err, syscall.ECONNREFUSED):
			continue
		case err != nil:
			w.WriteHeader(http.StatusBadGateway) // the replica may have accepted the callback
		default:
			_ = response.Body.Close()
			w.WriteHeader(response.StatusCode)
		}
		return
	}
	w.WriteHeader(http.StatusServiceUnavailable)
}
