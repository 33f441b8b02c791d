package pool

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

// BenchmarkFailover kills or stops a master, and measures when the first take succeeds on the new
// master. The first metric is the time from the fault to the promotion, which Redis decides. The second
// one is the time from the promotion to the take. With sentinels, most of it passes until the sentinels
// publish the new master, which is the third metric. In a cluster, the fourth metric is the longest
// time without a take from a master that lives.
func BenchmarkFailover(b *testing.B) {
	for _, c := range []struct {
		name     string
		start    func(testing.TB) *failoverPlace
		signal   syscall.Signal
		sentinel bool // whether the sentinel that poold uses shares the fault
	}{
		{"sentinels/killed", sentinelPlace, syscall.SIGKILL, false},
		{"sentinels/stopped", sentinelPlace, syscall.SIGSTOP, false},
		{"sentinels/killed with a sentinel", sentinelPlace, syscall.SIGKILL, true},
		{"sentinels/stopped with a sentinel", sentinelPlace, syscall.SIGSTOP, true},
		{"cluster/killed", clusterPlace("yes"), syscall.SIGKILL, false},
		{"cluster/killed, coverage no", clusterPlace("no"), syscall.SIGKILL, false},
		{"cluster/stopped, coverage no", clusterPlace("no"), syscall.SIGSTOP, false},
	} {
		b.Run(c.name, func(b *testing.B) {
			var sum [4]time.Duration
			for range b.N {
				for i, span := range measureFailover(b, c.start(b), c.signal, c.sentinel) {
					sum[i] += span
				}
			}
			for i, unit := range []string{"promotion-ms", "take-ms", "published-ms", "living-gap-ms"} {
				b.ReportMetric(float64(sum[i].Milliseconds())/float64(b.N), unit)
			}
		})
	}
}

// failoverPlace is a Redis with a master and its replica. In a cluster, a second master lives.
type failoverPlace struct {
	Options
	nodes     []redistest.Node // with sentinels: the master, the replica and the sentinels
	sentinels []redistest.Node
}

func sentinelPlace(t testing.TB) *failoverPlace {
	nodes := redistest.SentinelNodes(t)
	return &failoverPlace{Options{Addresses: urlsOf(nodes[2:]), SentinelMaster: redistest.MasterName}, nodes, slices.Clone(nodes[2:])}
}

func clusterPlace(fullCoverage string) func(testing.TB) *failoverPlace {
	return func(t testing.TB) *failoverPlace {
		nodes := redistest.ClusterOf(t, 1, "--cluster-require-full-coverage", fullCoverage)
		return &failoverPlace{Options{Addresses: urlsOf(nodes)}, nodes, nil}
	}
}

func urlsOf(nodes []redistest.Node) string {
	var urls []string
	for _, node := range nodes {
		urls = append(urls, "redis://"+node.Addr)
	}
	return strings.Join(urls, ",")
}

// strike sends a signal to the master, and to the sentinel that poold uses.
func (p *failoverPlace) strike(t testing.TB, signal syscall.Signal, sentinel bool) {
	struck := p.nodes[:1:1]
	if sentinel {
		used := slices.IndexFunc(p.sentinels, func(node redistest.Node) bool {
			return strings.Contains(redistest.Do(t, node.Addr, "CLIENT", "LIST"), " sub=2 ")
		})
		struck = append(struck, p.sentinels[used])
		p.sentinels = slices.Delete(p.sentinels, used, used+1)
	}
	for _, node := range struck {
		must(t, node.Process.Signal(signal))
		t.Cleanup(func() { _ = node.Process.Signal(syscall.SIGCONT) })
	}
}

// replica returns the address of the replica that becomes the master.
func (p *failoverPlace) replica(t testing.TB) string {
	_, port, _ := net.SplitHostPort(p.nodes[0].Addr)
	for _, node := range p.nodes[1:] {
		if strings.Contains(redistest.Do(t, node.Addr, "INFO", "replication"), "master_port:"+port+"\r") {
			return node.Addr
		}
	}
	t.Fatal("the master has no replica")
	return ""
}

// takeLog notes when takes of one identity succeed.
type takeLog struct {
	mu    sync.Mutex
	last  time.Time     // the last one
	gap   time.Duration // longest time between two
	since time.Time     // a take that begins later counts for first; zero = no take counts
	first time.Time     // the first one that counts
}

// run takes tokens until ctx ends.
func (l *takeLog) run(ctx context.Context, s *replica, id captcha.ID) {
	for ; ctx.Err() == nil; time.Sleep(2 * time.Millisecond) {
		began := time.Now()
		_, err := s.Take(ctx, Request{ID: id})
		l.mu.Lock()
		if at := time.Now(); err == nil {
			if !l.last.IsZero() {
				l.gap = max(l.gap, at.Sub(l.last))
			}
			l.last = at
			if l.first.IsZero() && !l.since.IsZero() && began.After(l.since) {
				l.first = at
			}
		}
		l.mu.Unlock()
	}
}

// count lets takes that begin after a time count.
func (l *takeLog) count(since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.since = since
}

// times returns the first take that counts, zero if there was none, and the longest time between two
// takes.
func (l *takeLog) times() (first time.Time, gap time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first, l.gap
}

// measureFailover returns the times that BenchmarkFailover reports.
func measureFailover(b *testing.B, p *failoverPlace, signal syscall.Signal, sentinel bool) (spans [4]time.Duration) {
	p.Prefix = "bench"
	s := open(b, p.Options)
	testkit.Within(b, 20*time.Second, "healthy", func() bool { return s.DB.Health().Up && s.DB.Health().Reason == "" })
	ids := []captcha.ID{identity("a")}
	if len(p.sentinels) == 0 {
		ids = []captcha.ID{identityAt(b, s, p.nodes[0].Addr, "a"), identityAt(b, s, p.nodes[1].Addr, "a")}
	}
	ctx, cancel := context.WithCancel(b.Context())
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	logs := make([]takeLog, len(ids))
	for i, id := range ids {
		fill(b, s, s.keys(id).tokens, 20_000)
		for range 4 {
			group.Go(func() { logs[i].run(ctx, s, id) })
		}
		for range 20 { // looks, like those of a daemon
			group.Go(func() {
				for ; ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
					_, _ = s.Look(ctx, id, 0, 0)
				}
			})
		}
	}
	replica := p.replica(b)
	time.Sleep(time.Second)
	began := time.Now()
	p.strike(b, signal, sentinel)
	logs[0].count(began.Add(100 * time.Millisecond))
	until := func(done func() bool) time.Time {
		for !done() {
			if time.Since(began) > time.Minute {
				b.Fatal("no failover within a minute")
			}
			time.Sleep(2 * time.Millisecond)
		}
		return time.Now()
	}
	promoted := until(func() bool { return strings.HasPrefix(redistest.Do(b, replica, "ROLE"), "[master") })
	spans[0] = promoted.Sub(began)
	if len(p.sentinels) > 0 {
		_, port, _ := net.SplitHostPort(replica)
		spans[2] = until(func() bool {
			return strings.Contains(redistest.Do(b, p.sentinels[0].Addr, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", redistest.MasterName), port)
		}).Sub(promoted)
	}
	until(func() bool { first, _ := logs[0].times(); return !first.IsZero() })
	first, _ := logs[0].times()
	spans[1] = first.Sub(promoted)
	if len(ids) > 1 {
		_, spans[3] = logs[1].times()
	}
	return spans
}
