package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"poold/internal/provider/simulatedtest"
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

// Invalid callbacks of all kinds and repeated valid callbacks get the status 200 and are counted,
// but change nothing.
func TestHostileCallbacks(t *testing.T) {
	t.Parallel()
	door := newCallbackDoor(t)
	w := newWorld(t, quick(), terms{depth: 5, provider: `, callback_url: "` + door.url + `", fallback_after: 4s`})
	p := w.start(t)
	door.setReplicas(p)
	for range 5 {
		if _, code, err := p.take(t.Context(), http.DefaultClient, "login", "?wait=20s"); code != http.StatusOK {
			t.Fatal(code, err)
		}
	}
	w.atRest(t, p, 20*time.Second)
	passed := door.recorded()
	if len(passed) < 10 {
		t.Fatalf("%d callbacks came", len(passed))
	}
	bought := p.balance()
	before, figures := p.metrics(), p.target("login")
	if calls := before["poold_provider_requests_total"] - providerCalls(before, "submit"); calls > 3 {
		t.Errorf("%v calls to the provider beyond the submits: it was polled in spite of its callbacks", calls)
	}

	for _, c := range passed {
		if status, err := c.send(p.url); status != http.StatusOK {
			t.Errorf("a repeated callback was answered with %d, %v", status, err)
		}
	}
	good := passed[0]
	path := strings.Split(strings.SplitN(good.path, "?", 2)[0], "/") // "", callback, provider, order, secret
	other := strings.Split(strings.SplitN(passed[1].path, "?", 2)[0], "/")
	form := "application/x-www-form-urlencoded"
	token := "id=4711&code=" + url.QueryEscape("03AF-forged")
	hostile := map[string]callback{
		"wrong secret":              {http.MethodPost, strings.Join(path[:4], "/") + "/" + strings.Repeat("0", len(path[4])), form, []byte(token)},
		"secret of another order":   {http.MethodPost, strings.Join(path[:4], "/") + "/" + other[4], form, []byte(token)},
		"no secret":                 {http.MethodPost, strings.Join(path[:4], "/") + "/x", form, []byte(token)},
		"another provider":          {http.MethodGet, "/callback/nobody/" + path[3] + "/" + path[4] + "?" + token, "", nil},
		"order of no form":          {http.MethodGet, "/callback/service/%2e%2e%2f%00/" + path[4] + "?" + token, "", nil},
		"unknown order":             {http.MethodPost, "/callback/service/" + strings.Repeat("A", 26) + path[3][26:] + "/" + path[4], form, []byte(token)},
		"oversized":                 {http.MethodPost, good.path, form, []byte(token + strings.Repeat("x", 200<<10))},
		"control characters":        {http.MethodPost, good.path, form, []byte("id=1&code=a%00b%0d%0a")},
		"JSON of the wrong types":   {http.MethodPost, good.path, "application/json", []byte(`{"id":[],"code":{"a":1}}`)},
		"no body":                   {http.MethodPost, good.path, form, nil},
		"error code":                {http.MethodPost, good.path, form, []byte("id=1&code=ERROR_CAPTCHA_UNSOLVABLE")},
		"a body of no known type":   {http.MethodPost, good.path, "application/x-unknown", []byte("\xff\xfe")},
		"another token for the old": {http.MethodPost, good.path, form, []byte(token)},
	}
	for name, c := range hostile {
		if status, err := c.send(p.url); status != http.StatusOK {
			t.Errorf("%s: answered with %d, %v", name, status, err)
		}
	}
	time.Sleep(300 * time.Millisecond) // longer than the life of a cached snapshot
	after, now := p.metrics(), p.target("login")
	if counted := after["poold_callbacks_total"] - before["poold_callbacks_total"]; int(counted) != len(passed)+len(hostile) {
		t.Errorf("%v callbacks were counted of %d", counted, len(passed)+len(hostile))
	}
	if now.Fresh != figures.Fresh || now.Solved != figures.Solved || now.Failed != figures.Failed || p.balance() != bought {
		t.Errorf("something changed:\n%+v\n%+v", figures, now)
	}
	// Each token in stock was sold by the provider.
	w.drain(t, p, map[string]bool{})
}

// providerCalls returns the number of calls with the given action. It counts all outcomes.
func providerCalls(metrics map[string]float64, action string) (sum float64) {
	for series, value := range metrics {
		if strings.HasPrefix(series, "poold_provider_requests_total{") && strings.Contains(series, `action="`+action+`"`) {
			sum += value
		}
	}
	return sum
}

// cuttable starts a Redis server behind a proxy that can cut the network.
func cuttable(t *testing.T) (address string, network *toxiproxy.Proxy) {
	t.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	network = toxiproxy.NewProxy(server, "redis", "127.0.0.1:0", redistest.Server(t))
	if err := network.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(network.Stop)
	return "redis://" + network.Listen, network
}

// letters lists the files that contain dead letters.
func letters(t *testing.T, w *world) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(w.letters, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// While Redis is unreachable, callbacks are stored on disk and get the status 200. When Redis is
// reachable again, every token comes into the stock exactly once. This holds even if the replica is
// killed before that time.
func TestCallbacksWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	for _, kill := range []bool{false, true} {
		name := map[bool]string{false: "goes on", true: "is killed"}[kill]
		t.Run("the replica "+name, func(t *testing.T) {
			t.Parallel()
			const depth = 6
			address, network := cuttable(t)
			door := newCallbackDoor(t)
			o := quick()
			o.Median, o.Min, o.Max, o.Sigma = 2*time.Second, 2*time.Second, 2*time.Second, 0
			// Polls would collect the tokens too, so the configuration file delays the polls beyond the
			// end of the test.
			w := newWorld(t, o, terms{depth: depth, timeout: "60s", redis: address, provider: `, callback_url: "` + door.url + `", fallback_after: 50s`})
			p := w.start(t)
			door.setReplicas(p)
			testkit.Within(t, 20*time.Second, "the orders to be submitted", func() bool {
				return ledger(t, w.provider).Totals.Submitted == depth
			})
			network.Stop()
			testkit.Within(t, 20*time.Second, "the callbacks to be kept", func() bool { return len(letters(t, w)) == depth })
			for _, file := range letters(t, w) {
				if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
					t.Errorf("%s: %v, %v", file, info.Mode(), err)
				}
			}
			var listed struct {
				Letters []map[string]any `json:"letters"`
			}
			getJSON(t, p.url+"/dead-letters", "", &listed)
			text, _ := json.Marshal(listed)
			if len(listed.Letters) != depth || bytes.Contains(text, []byte("token\":\"")) {
				t.Errorf("listed: %s", text)
			}
			if kill {
				p.signal(syscall.SIGKILL)
				p.waitForDeath(5 * time.Second)
			}
			if err := network.Start(); err != nil {
				t.Fatal(err)
			}
			if kill {
				p = w.start(t)
			}
			w.atRest(t, p, 20*time.Second)
			if left := letters(t, w); len(left) != 0 {
				t.Errorf("%d letters are left", len(left))
			}
			books := ledger(t, w.provider)
			if books.Totals.Submitted != depth || books.Totals.ByAction[simulatedtest.Poll] != 0 {
				t.Errorf("%d tasks bought for a depth of %d, %d polls", books.Totals.Submitted, depth, books.Totals.ByAction[simulatedtest.Poll])
			}
			for _, sale := range books.Sales {
				if sale.Pinged != 1 {
					t.Errorf("the callback of task %s was not answered with 200", sale.Task)
				}
			}
			if bought := p.balance(); bought != depth {
				t.Errorf("poold counts %d bought", bought)
			}
			if n := w.drain(t, p, map[string]bool{}); n < depth {
				t.Errorf("%d tokens in stock", n)
			}
		})
	}
}
