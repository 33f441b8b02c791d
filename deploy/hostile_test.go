//go:build soak

package deploy_test

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"poold/internal/daemontest"
	"poold/internal/provider/simulatedtest"
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

// hostileConfig needs the address of Redis and the URL of the provider.
const hostileConfig = `
server:
  keys: [{name: caller, key: rolling-key-012345, scopes: [token]}, {name: tests, key: ` + key + `, scopes: [token, solve, status, admin]}]
redis: {url: "redis://%s"}
providers: [{name: s, url: "%s", key: a-key, price_per_1000: 1, concurrency: 1000, first_poll: 500ms, poll_interval: 500ms}]
solve: {pages: ["https://solve.example.com/*"], images: true, budget: {per_day: 100000}}
defaults: {owner: qa@example.com}
targets:
  login: {` + page + `login, depth: 200}
  other: {` + page + `other, depth: 5}
`

// TestHostileClients attacks a running poold from other addresses while a caller takes tokens. All
// takes succeed without much delay, some of them after a 503. poold ends the connections of slow clients by itself, and keeps
// nothing of the attackers.
func TestHostileClients(t *testing.T) {
	t.Parallel()
	service := daemontest.Provider(t, simulatedtest.Options{Median: 300 * time.Millisecond})
	p := daemontest.Start(t, daemontest.Options{Config: fmt.Sprintf(hostileConfig, redistest.Server(t), service), Key: key})
	full := regexp.MustCompile(`poold_pool_tokens\{target="login"\} 200`)
	testkit.Within(t, 40*time.Second, "a full pool", func() bool {
		_, text := p.Call(http.MethodGet, "/metrics", "")
		return full.MatchString(text)
	})
	load := &steadyLoad{t: t, url: p.URL + "/pool/login/token?wait=10s", tokens: map[string]bool{}}
	seconds := make(chan struct{})
	time.AfterFunc(2*time.Second, func() { close(seconds) })
	calm := load.takeUntil(seconds)
	before := usageOf(t, p)

	var attackers sync.WaitGroup
	ended := make(chan struct{})
	for i, attack := range attacks {
		attackers.Go(func() {
			a := &attacker{T: t, poold: p.URL[len("http://"):], number: byte(2 + i)}
			if err := attack.run(a); err != nil {
				t.Errorf("%s: %v", attack.name, err)
			}
		})
	}
	go func() { attackers.Wait(); close(ended) }()
	attacked := load.takeUntil(ended)

	t.Logf("p50 of a take: %v, with attackers %v (%d takes, %d repeated after a 503); before: %+v", median(calm), median(attacked), len(attacked), load.again.Load(), before)
	if median(attacked) > 10*median(calm)+30*time.Millisecond {
		t.Errorf("the median of a take rose from %v to %v", median(calm), median(attacked))
	}
	var after usage
	defer func() { t.Logf("after: %+v", after) }()
	testkit.Within(t, 30*time.Second, "the attackers' connections to be gone", func() bool {
		after = usageOf(t, p)
		// The connections to the provider and to Redis that the pictures needed stay open for some seconds.
		return after.Connections <= before.Connections && after.Goroutines <= before.Goroutines+100 && after.Files <= before.Files+60 && after.Heap <= before.Heap+8<<20
	})
}

// takeUntil takes 40 tokens a second, each over a new connection, and returns how long each take
// needed.
func (l *steadyLoad) takeUntil(ended <-chan struct{}) (took []time.Duration) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 20 * time.Second}
	var mu sync.Mutex
	var requests sync.WaitGroup
	ticker := time.NewTicker(time.Second / 40)
	defer ticker.Stop()
	for {
		select {
		case <-ended:
			requests.Wait()
			return took
		case <-ticker.C:
		}
		requests.Go(func() {
			began := time.Now()
			for !l.take(client) { // on a busy machine, the purchases or Redis can fall behind for a moment
				l.again.Add(1)
				if time.Since(began) > 20*time.Second {
					l.t.Error("a take got 503 for 20 s")
					break
				}
				time.Sleep(100 * time.Millisecond)
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, time.Since(began))
		})
	}
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}
