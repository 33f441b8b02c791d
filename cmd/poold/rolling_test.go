package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"poold/internal/testkit"
)

// BenchmarkRollingReplacement replaces three replicas under load, one after another. The new
// replicas run the binary that the environment variable POOLD_OTHER names, or the same binary if
// the variable is not set. Then the benchmark replaces them by the first binary again. It does all
// this b.N times, and fails if a token is lost, handed out twice, or bought and not counted.
func BenchmarkRollingReplacement(b *testing.B) {
	other := poold
	if path := os.Getenv("POOLD_OTHER"); path != "" {
		other = func(_ testing.TB, args ...string) *exec.Cmd { return alone(path, args) }
	}
	w := newWorld(b, quick(), terms{depth: 10, top: buying})
	load := &rollingLoad{b: b, seen: map[string]bool{}}
	for range 3 {
		load.replicas = append(load.replicas, &atomic.Pointer[process]{})
	}
	ways := []program{poold, other}
	replace := func(i int, way program) {
		if p := load.replicas[i].Swap(nil); p != nil {
			if err := p.stop(); err != nil {
				b.Errorf("stopping a replica: %v", err)
			}
		}
		load.replicas[i].Store(startProgram(b, way, w.config, ""))
	}
	for i := range load.replicas {
		replace(i, poold)
	}
	ctx, stop := context.WithCancel(b.Context())
	var callers sync.WaitGroup
	for caller := range 8 {
		callers.Go(func() { load.call(ctx, caller) })
	}
	b.ResetTimer()
	for round := range 2 * b.N {
		for i := range load.replicas {
			time.Sleep(2 * time.Second)
			replace(i, ways[(round+1)%2])
		}
	}
	time.Sleep(2 * time.Second)
	b.StopTimer()
	stop()
	callers.Wait()

	p := load.replicas[0].Load()
	testkit.Within(b, 40*time.Second, "rest", func() bool { s := p.target("login"); return s.InFlight == 0 && s.Fresh >= s.Depth })
	books := ledger(b, w.provider)
	sold := sales(books)
	for token := range load.seen {
		if _, ok := sold[token]; !ok {
			b.Errorf("a token was handed out that the service did not sell: %s", token)
		}
	}
	target := p.target("login")
	served := int(target.Hits + target.Waited)
	var of struct{ Solve struct{ Bought, Solved int } }
	getJSON(b, p.url+"/status.json", "", &of)
	if bought := p.balance(); bought != len(books.Sales) {
		b.Errorf("%d orders are counted, the service sold %d", bought, len(books.Sales))
	}
	if solved := int(load.solves.Load()); solved != of.Solve.Solved {
		b.Errorf("%d solves were answered, %d are counted as solved", solved, of.Solve.Solved)
	}
	if answered := int(load.tokens.Load()); answered != served || target.Lost != 0 {
		b.Errorf("%d tokens were answered, %d are counted as served, %d as lost", answered, served, target.Lost)
	}
	b.ReportMetric(float64(load.tokens.Load()), "tokens")
	b.ReportMetric(float64(load.solves.Load()), "solves")
	b.ReportMetric(float64(load.again.Load()), "tries-again")
	b.ReportMetric(float64(load.longest.Load())/1e9, "longest-s")
}

// rollingLoad is a set of callers that send requests to the replicas in turn, as a load balancer
// does. They skip a replica that is stopping or is not running.
type rollingLoad struct {
	b        *testing.B
	replicas []*atomic.Pointer[process]

	tokens, solves, again atomic.Int64
	longest               atomic.Int64 // longest time to a token in ns, including all attempts

	mu   sync.Mutex
	seen map[string]bool // hashes of the tokens
}

// call takes tokens until ctx ends. Every fourth request solves a CAPTCHA of a new page instead.
func (l *rollingLoad) call(ctx context.Context, caller int) {
	client := &http.Client{Transport: checking(&http.Transport{}), Timeout: 30 * time.Second}
	defer client.CloseIdleConnections()
	for n := 0; ctx.Err() == nil; n++ {
		began := time.Now()
		key := fmt.Sprintf("rolling-%d-%d", caller, n)
		for try := 0; !l.request(client, caller+n+try, key, n%4 == 3); try++ {
			l.again.Add(1)
			if time.Since(began) > 30*time.Second {
				l.b.Errorf("no answer to %s in 30 s", key)
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
		for took := int64(time.Since(began)); ; {
			if was := l.longest.Load(); took <= was || l.longest.CompareAndSwap(was, took) {
				break
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// request sends a request to one replica and reports whether the replica responded with a token.
// The request has an idempotency key, so it may be sent again.
func (l *rollingLoad) request(client *http.Client, turn int, key string, solve bool) bool {
	p := l.replicas[turn%len(l.replicas)].Load()
	if p == nil {
		return false
	}
	var token string
	if solve {
		a, code, err := p.solve(context.Background(), client, guest(key), "Idempotency-Key", key)
		if err != nil || code != http.StatusOK {
			return false
		}
		l.solves.Add(1)
		token = a.Token
	} else {
		h, code, err := p.take(context.Background(), client, "login", "?wait=10s", "Idempotency-Key", key)
		if err != nil || code != http.StatusOK {
			return false
		}
		l.tokens.Add(1)
		token = h.Token
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen[hash(token)] {
		l.b.Errorf("a token was handed out twice, the second time for %s", key)
	}
	l.seen[hash(token)] = true
	return true
}
