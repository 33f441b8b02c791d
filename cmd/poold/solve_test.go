package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"poold/internal/daemontest"
	"poold/internal/postgres/postgrestest"
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

// buying is the section of the configuration file that allows purchases for /solve.
const buying = `solve: {owner: qa@example.com, pages: ["https://example.com/*"], images: true, ` +
	`budget: {per_day: 100000}}`

// guest returns a body of POST /solve for an identity that no target has.
func guest(name string, more ...string) string {
	return fmt.Sprintf(`{"type":"turnstile","sitekey":"1x00000000000000000000AA","pageurl":"https://example.com/%s"%s}`,
		name, strings.Join(more, ""))
}

const sharing = `,"dedup":"identity"`

// solveAnswer is the response to POST /solve.
type solveAnswer struct {
	handout

	Code, Detail string
}

// solve sends a POST /solve and returns the status code.
func (p *process) solve(ctx context.Context, client *http.Client, body string,
	headers ...string) (solveAnswer, int, error) {
	text, code, err := p.request(ctx, client, "/solve", body, append(headers, "Content-Type", "application/json")...)
	if err != nil {
		return solveAnswer{}, code, err
	}
	var a solveAnswer
	return a, code, json.Unmarshal(text, &a)
}

// solvers are concurrent callers of /solve. Each caller repeats its request until a living replica
// responds.
type solvers struct {
	mu     sync.Mutex
	tokens map[string]int // number of callers by token
	failed []string
}

// ask runs n concurrent callers. Caller i sends body(i), and the callers use the replicas in turn.
func ask(t *testing.T, replicas []*process, n int, body func(i int) string) *solvers {
	t.Helper()
	c := &solvers{tokens: map[string]int{}}
	client := &http.Client{Transport: daemontest.Checking(&http.Transport{MaxIdleConnsPerHost: n})}
	defer client.CloseIdleConnections()
	var callers sync.WaitGroup
	for i := range n {
		callers.Go(func() {
			for try := range 20 {
				a, code, err := replicas[(i+try)%len(replicas)].solve(t.Context(), client, body(i))
				// a part is dead or too busy, so the retry goes to another replica
				if err != nil || a.Code == "store_down" || a.Code == "provider_down" {
					time.Sleep(50 * time.Millisecond)
					continue
				}
				c.mu.Lock()
				defer c.mu.Unlock()
				if code != http.StatusOK {
					c.failed = append(c.failed, fmt.Sprintf("%d %s: %s", code, a.Code, a.Detail))
					return
				}
				c.tokens[a.Token]++
				return
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.failed = append(c.failed, "no replica answered")
		})
	}
	callers.Wait()
	return c
}

// For equal requests that share their solve, all replicas together buy only one solve, although the
// replica that solves is killed.
func TestEqualSolvesBuyOne(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	for name, crash := range map[string]string{"a cluster": "bought", "postgres": "placed"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := quick()
			o.Median, o.Sigma = 3*time.Second, 0
			with := terms{top: buying, timeout: "60s"}
			if name == "postgres" {
				with.top += fmt.Sprintf("\ndedup: {backend: postgres, url: %q}", postgrestest.Start(t).Database(t))
			} else {
				with.redis = "redis://" + strings.Join(redistest.Cluster(t), ",redis://")
			}
			w := newWorld(t, o, with)
			first := w.start(t, crashAt(crash, 1))
			replicas := []*process{first, w.start(t), w.start(t)}
			// The first caller's replica dies with the claim, before the other callers come.
			begun := make(chan *solvers, 1)
			body := func(int) string { return guest("shared", sharing) }
			go func() { begun <- ask(t, replicas, 1, body) }()
			first.waitForDeath(20 * time.Second)
			c := ask(t, replicas[1:], 30, body)
			one := <-begun
			for _, part := range []*solvers{c, one} {
				if len(part.failed) > 0 {
					t.Fatalf("%d callers got nothing, the first one: %s", len(part.failed), part.failed[0])
				}
			}
			for token := range one.tokens {
				if len(one.tokens) != 1 || len(c.tokens) != 1 || c.tokens[token] != 30 {
					t.Errorf("the callers got %d different tokens", len(c.tokens))
				}
			}
			testkit.Equal(t, "solves bought for 31 equal requests", ledger(t, w.provider).Totals.Submitted, 1)
		})
	}
}
