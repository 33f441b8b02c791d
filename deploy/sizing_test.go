package deploy_test

import (
	"fmt"
	"math"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/daemontest"
	"poold/internal/provider/simulated"
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

// memory returns the bytes of all keys of poold of these kinds.
func (m meter) memory(kinds ...string) (bytes float64) {
	m.Helper()
	for _, kind := range kinds {
		pattern := "captcha:" + kind + ":*"
		if kind == "*" {
			pattern = "captcha:*"
		}
		keys, err := m.Keys(m.Context(), pattern).Result()
		if err != nil {
			m.Fatal(err)
		}
		pipe := m.Pipeline()
		for _, key := range keys {
			pipe.MemoryUsage(m.Context(), key, 0)
		}
		results, _ := pipe.Exec(m.Context())
		for _, one := range results {
			if size, err := one.(*redis.IntCmd).Result(); err == nil { // an expired key has no size
				bytes += float64(size) + tableBytes
			}
		}
	}
	return bytes
}

// commands returns how many commands and how many scripts Redis has executed. The commands include
// those of the scripts.
func (m meter) commands() (all, scripts float64) {
	m.Helper()
	text, err := m.Info(m.Context(), "commandstats").Result()
	if err != nil {
		m.Fatal(err)
	}
	for _, line := range regexp.MustCompile(`cmdstat_([^:]+):calls=(\d+)`).FindAllStringSubmatch(text, -1) {
		calls, err := strconv.ParseFloat(line[2], 64)
		if err != nil {
			m.Fatal(err)
		}
		all += calls
		if strings.HasPrefix(line[1], "eval") {
			scripts += calls
		}
	}
	return all, scripts
}

// sizingConfig has a busy target with a budget and a price, and the default history and audit.
func sizingConfig(redis, url string, depth int) string {
	return fmt.Sprintf(faultConfig, redis, url, "concurrency: 1000") +
		fmt.Sprintf("  login: {%slogin, depth: %d, budget: {per_day: 100000}}\n", page, depth)
}

// memoryRows measures the memory of Redis for each token, order, record, audit entry and budgeted
// solve, with n of each.
func memoryRows(t testing.TB) (rows []row) {
	const n = 200
	address := redistest.Server(t)
	m, url := newMeter(t, address), daemontest.Provider(t, simulated.Options{Median: 200 * time.Millisecond, LedgerHTTP: true})
	w := watch(t, daemontest.Options{Config: sizingConfig(address, url, n)})
	w.wait("login", n, 0)
	testkit.Within(t, 20*time.Second, "the history", func() bool { return w.solved("login") == n && m.memory("ended") == 0 })
	add := func(name string, bytes float64) { rows = append(rows, row{name, bytes / n}) }
	const bySite = 50 // the newest records of a sitekey
	add("a ready token", m.memory("pool"))
	add("a token that landed", m.memory("values", "sold"))
	add("a record of the history", m.memory("solve", "alias"))
	add("a record among the newest", m.memory("records")*n/(n+bySite))
	add("a solve that a budget counts", m.memory("spend"))
	rows = append(rows, row{"a target with requests", m.memory("stats", "hour", "hours", "leads", "mind", "verdicts", "attempts")})

	setFaults(t, url, notReady)
	tasks := m.memory("task")
	for range n {
		w.take("login")
	}
	w.wait("login", 0, n)
	add("an order in flight", m.memory("orders", "journal", "leases", "places", "task")-tasks)
	testkit.Within(t, 20*time.Second, "the audit", func() bool {
		return strings.Count(w.call(http.StatusOK, "GET", "/history/key/tests?limit=1000", ""), `"taken"`) == n
	})
	add("an entry of the audit", m.memory("audit"))
	return rows
}

// documented returns the figures of the section "Sizing".
func documented(t testing.TB) map[string]float64 {
	t.Helper()
	_, section, _ := strings.Cut(read(t, "../docs/redis.md"), "\n## Sizing\n")
	figures := map[string]float64{}
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
	testkit.WithoutRace(t)
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

// commandRows measures the commands of takes, and of orders.
func commandRows(t testing.TB) (rows []row) {
	const n = 200
	address := redistest.Server(t)
	m := newMeter(t, address)
	w := watch(t, daemontest.Options{Config: sizingConfig(address, daemontest.Provider(t, simulated.Options{Median: 200 * time.Millisecond}), n)})
	w.wait("login", n, 0)
	w.call(http.StatusNoContent, "POST", "/pool/login/pause", `{}`)
	// count returns the commands and the scripts for each of n calls. It leaves out those that poold
	// sends without calls.
	count := func(call func()) (all, scripts float64) {
		rest := func() (all, scripts float64) {
			time.Sleep(time.Second) // the calls before have ended
			a, s := m.commands()
			time.Sleep(5 * time.Second)
			all, scripts = m.commands()
			return (all - a) / 5, (scripts - s) / 5
		}
		restAll, restScripts := rest()
		a, s := m.commands()
		began := time.Now()
		for range n {
			call()
		}
		time.Sleep(2 * time.Second) // the orders and the audit
		all, scripts = m.commands()
		seconds := time.Since(began).Seconds()
		return (all - a - seconds*restAll) / n, (scripts - s - seconds*restScripts) / n
	}
	time.Sleep(70 * time.Second) // poold renews the status until a minute after its last reader
	takeAll, takeScripts := count(func() { w.take("login") })
	w.call(http.StatusNoContent, "POST", "/pool/login/resume", "")
	bothAll, bothScripts := count(func() {
		w.take("login")
		time.Sleep(20 * time.Millisecond)
	})
	return []row{
		{"a take: commands", takeAll}, {"a take: scripts", takeScripts},
		{"an order: commands", bothAll - takeAll}, {"an order: scripts", bothScripts - takeScripts},
	}
}

// idleRows measures what targets without callers cost.
func idleRows(t testing.TB) []row {
	const n = 2000
	resident := func(targets int) (m meter, bytes float64) {
		address := redistest.Server(t)
		text := fmt.Sprintf(faultConfig, address, service(t, time.Second), "concurrency: 10")
		for i := range targets {
			text += fmt.Sprintf("  t%d: {%s%d, refill: adaptive, depth: 5}\n", i, page, i)
		}
		p := daemontest.Start(t, daemontest.Options{Config: text, Key: key})
		time.Sleep(75 * time.Second)
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
		if err != nil {
			t.Fatal(err)
		}
		kilobytes, err := strconv.ParseFloat(found(`VmRSS:\s+(\d+) kB`, string(status))[0], 64)
		if err != nil {
			t.Fatal(err)
		}
		return newMeter(t, address), 1024 * kilobytes
	}
	_, alone := resident(1)
	m, many := resident(n + 1)
	a, s := m.commands()
	time.Sleep(time.Minute)
	all, scripts := m.commands()
	return []row{
		{"an idle target: bytes in Redis", m.memory("*") / n}, {"an idle target: bytes in the process", (many - alone) / n},
		{"an idle target: commands a minute", (all - a) / n}, {"a look at an idle target: commands", (all - a) / (scripts - s)},
		{"a poold with one target: MB", alone / 1e6},
	}
}
