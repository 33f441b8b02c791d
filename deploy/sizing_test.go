//go:build !race

package deploy_test

import (
	"fmt"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/daemontest"
	"poold/internal/provider/simulatedtest"
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

// row is a figure in the tables in the section "Sizing" of docs/redis.md.
type row struct {
	name  string
	value float64
}

// meter measures the memory and the commands of a Redis that only poold uses.
type meter struct {
	testing.TB
	*redis.Client
}

func newMeter(t testing.TB, address string) meter {
	client := redis.NewClient(&redis.Options{Addr: address, Protocol: 2})
	t.Cleanup(func() { _ = client.Close() })
	return meter{t, client}
}

// tableBytes is the memory of a key in the hash tables of Redis, which MEMORY USAGE omits: an entry for
// its expiry (32 bytes), and 1.5 pointers in each of two tables.
const tableBytes = 32 + 24

// memory returns the bytes of all keys of poold of these kinds; none = of all kinds.
func (m meter) memory(kinds ...string) (bytes float64) {
	m.Helper()
	pattern := regexp.MustCompile(`^\{?captcha\}?:(` + strings.Join(kinds, "|") + `)` + map[bool]string{true: "(:|$)"}[len(kinds) > 0])
	keys, err := m.Keys(m.Context(), "*").Result()
	if err != nil {
		m.Fatal(err)
	}
	pipe := m.Pipeline()
	for _, key := range keys {
		if pattern.MatchString(key) {
			pipe.MemoryUsage(m.Context(), key, 0)
		}
	}
	results, _ := pipe.Exec(m.Context())
	for _, one := range results {
		if size, err := one.(*redis.IntCmd).Result(); err == nil { // an expired key has no size
			bytes += float64(size) + tableBytes
		}
	}
	return bytes
}

// work is what Redis and a poold have done so far: the numbers of commands, including those in scripts,
// and of scripts, and their CPU times in µs.
type work struct{ commands, scripts, redis, poold float64 }

// done returns the work of Redis and of the poold with this process ID.
func (m meter) done(pid int) work {
	m.Helper()
	sums, _ := redistest.Totals(m, m.Options().Addr)
	w := work{sums.Commands, sums.Scripts, float64(sums.Redis.Microseconds()), 0}
	const tick = 1e4 // µs
	for _, ticks := range strings.Fields(read(m, fmt.Sprintf("/proc/%d/stat", pid)))[13:15] {
		n, err := strconv.ParseFloat(ticks, 64)
		if err != nil {
			m.Fatal(err)
		}
		w.poold += tick * n
	}
	return w
}

// minus returns the work of w without n times that of other, divided by calls.
func (w work) minus(other work, n, calls float64) work {
	return work{
		(w.commands - n*other.commands) / calls, (w.scripts - n*other.scripts) / calls,
		(w.redis - n*other.redis) / calls, (w.poold - n*other.poold) / calls,
	}
}

// rows returns the figures of a step.
func (w work) rows(step string) []row {
	return []row{
		{step + ": commands", w.commands}, {step + ": scripts", w.scripts},
		{step + ": CPU time of Redis, µs", w.redis}, {step + ": CPU time of poold, µs", w.poold},
	}
}

// sizingConfig has a busy target with a budget and a price, and the default history and audit.
func sizingConfig(redis, url string, depth int) string {
	return fmt.Sprintf(faultConfig, redis, url, "concurrency: 1000") +
		fmt.Sprintf("  login: {%slogin, depth: %d, budget: {per_day: 100000}}\n", page, depth)
}

// memoryRows measures the memory of Redis for each token, order, row of the history and budgeted solve, with n of
// each.
func memoryRows(t testing.TB) (rows []row) {
	const n = 200
	address := redistest.Server(t)
	m, url := newMeter(t, address), daemontest.Provider(t, simulatedtest.Options{Median: 200 * time.Millisecond, LedgerHTTP: true})
	w := watch(t, daemontest.Options{Config: sizingConfig(address, url, n)})
	w.wait("login", n, 0)
	testkit.Within(t, 20*time.Second, "the history", func() bool { return w.solved("login") == n })
	add := func(name string, bytes float64) { rows = append(rows, row{name, bytes / n}) }
	const bySite = 50 // the newest records of a sitekey
	add("a ready token", m.memory("tokens", "token"))
	add("a token that landed", m.memory("value", "sale"))
	add("a task of the service", m.memory("task"))
	add("an ended order among the newest", m.memory("orders")*n/(n+bySite))
	add("a solve that a budget counts", m.memory("spend"))
	rows = append(rows, row{"a target with requests", m.memory("stats", "minutes", "periods", "due")})

	setFaults(t, url, notReady)
	for range n {
		w.take("login")
	}
	w.wait("login", 0, n)
	add("an order in flight", m.memory("order", "deadlines", "owned", "permits", "inflight"))
	testkit.Within(t, 20*time.Second, "the audit", func() bool {
		return strings.Count(w.call(http.StatusOK, "GET", "/history/key/tests?limit=1000", ""), `"taken"`) == n
	})
	add("a hand-out among the newest", m.memory("handouts"))
	return rows
}

// documented returns the figures of the section "Sizing".
func documented(t testing.TB) map[string]float64 {
	t.Helper()
	section, figures := sectionOf(t, "redis.md", "## Sizing"), map[string]float64{}
	for _, match := range regexp.MustCompile(`(?m)^\| ([^|]+) \| ([\d,.]+) \|`).FindAllStringSubmatch(section, -1) {
		value, err := strconv.ParseFloat(strings.ReplaceAll(match[2], ",", ""), 64)
		if err != nil {
			t.Fatal(err)
		}
		figures[match[1]] = value
	}
	return figures
}

// TestSizing: the memory that the section "Sizing" of docs/redis.md gives is right to a quarter.
func TestSizing(t *testing.T) {
	t.Parallel()
	figures := documented(t)
	for _, r := range memoryRows(t) {
		if said := figures[r.name]; math.Abs(r.value-said) > said/4 {
			t.Errorf("%s needs %.0f bytes in Redis, and docs/redis.md says %.0f", r.name, r.value, said)
		}
	}
}

// BenchmarkSizing prints the figures of the section "Sizing" of docs/redis.md.
func BenchmarkSizing(b *testing.B) {
	for name, measure := range map[string]func(testing.TB) []row{"memory": memoryRows, "commands": commandRows, "idle": idleRows} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				for _, r := range measure(b) {
					fmt.Printf("%-46s %10.1f\n", r.name, r.value)
				}
			}
		})
	}
}

// commandRows measures the work for takes, and for orders.
func commandRows(t testing.TB) (rows []row) {
	const n = 200
	address := redistest.Server(t)
	m := newMeter(t, address)
	w := watch(t, daemontest.Options{Config: sizingConfig(address, daemontest.Provider(t, simulatedtest.Options{Median: 200 * time.Millisecond}), n)})
	w.wait("login", n, 0)
	w.call(http.StatusNoContent, "POST", "/pool/login/pause", `{}`)
	// count returns the work for each of n calls. It leaves out the work that poold does without calls.
	count := func(call func()) work {
		time.Sleep(time.Second) // the calls before have ended
		before := m.done(w.PID())
		time.Sleep(5 * time.Second)
		began, start := time.Now(), m.done(w.PID())
		for range n {
			call()
		}
		time.Sleep(2 * time.Second) // the orders and the audit
		all, second := m.done(w.PID()).minus(start, 1, 1), start.minus(before, 1, 5)
		return all.minus(second, time.Since(began).Seconds(), n)
	}
	time.Sleep(70 * time.Second) // poold renews the status until a minute after its last reader
	take := count(func() { w.take("login") })
	w.call(http.StatusNoContent, "POST", "/pool/login/resume", "")
	both := count(func() {
		w.take("login")
		time.Sleep(20 * time.Millisecond)
	})
	return append(take.rows("a take"), both.minus(take, 1, 1).rows("an order")...)
}

// idleRows measures what targets without callers cost.
func idleRows(t testing.TB) []row {
	const n = 2000
	resident := func(targets int) (m meter, pid int, bytes float64) {
		address := redistest.Server(t)
		text := fmt.Sprintf(faultConfig, address, service(t, time.Second), "concurrency: 10")
		for i := range targets {
			text += fmt.Sprintf("  t%d: {%s%d, refill: adaptive, depth: 5}\n", i, page, i)
		}
		p := daemontest.Start(t, daemontest.Options{Config: text, Key: key})
		time.Sleep(75 * time.Second)
		status := read(t, fmt.Sprintf("/proc/%d/status", p.PID()))
		kilobytes, err := strconv.ParseFloat(found(`VmRSS:\s+(\d+) kB`, status)[0], 64)
		if err != nil {
			t.Fatal(err)
		}
		return newMeter(t, address), p.PID(), 1024 * kilobytes
	}
	_, _, alone := resident(1)
	m, pid, many := resident(n + 1)
	start := m.done(pid)
	time.Sleep(time.Minute)
	minute := m.done(pid).minus(start, 1, n)
	return append(minute.rows("an idle target in a minute"), row{"a look at an idle target: commands", minute.commands / minute.scripts},
		row{"an idle target: bytes in Redis", m.memory() / n}, row{"an idle target: bytes in the process", (many - alone) / n},
		row{"a poold with one target: MB", alone / 1e6})
}
