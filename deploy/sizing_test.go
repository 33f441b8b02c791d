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
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

// row is a figure in the first table in the section "Sizing" of docs/redis.md.
type row struct {
	name  string
	value float64
}

// meter measures the memory of a Redis that only poold uses.
type meter struct {
	testing.TB
	*redis.Client
}

// tableBytes is the memory of a key in the hash tables of Redis, which MEMORY USAGE omits: an entry for
// its expiry (32 bytes), and 1.5 pointers in each of two tables.
const tableBytes = 32 + 24

// memory returns the bytes of all keys of poold of these kinds; none = of all kinds.
func (m meter) memory(kinds ...string) (bytes float64) {
	m.Helper()
	pattern := regexp.MustCompile(`^\{?captcha\}?:(` + strings.Join(kinds, "|") + `)` +
		map[bool]string{true: "(:|$)"}[len(kinds) > 0])
	keys, err := m.Keys(m.Context(), "*").Result()
	testkit.NoError(m, err)
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

// memoryRows measures the memory of Redis for each token, order, row of the history and budgeted solve, with n of
// each.
func memoryRows(t testing.TB) (rows []row) {
	const n = 200
	address := redistest.Server(t)
	client := redis.NewClient(&redis.Options{Addr: address, Protocol: 2})
	t.Cleanup(func() { _ = client.Close() })
	m, url := meter{t, client}, service(t, 200*time.Millisecond)
	// A busy target with a budget and a price, and the default history and audit.
	w := watch(t, daemontest.Settings{Config: fmt.Sprintf(faultConfig, address, url, "concurrency: 1000") +
		fmt.Sprintf("  login: {%slogin, depth: %d, budget: {per_day: 100000}}\n", page, n)})
	w.wait("login", n, 0)
	testkit.Within(t, 20*time.Second, "the history", func() bool { return w.solved("login") == n })
	add := func(name string, bytes float64) { rows = append(rows, row{name, bytes / n}) }
	const bySite = 50 // the newest records of a sitekey
	add("a ready token", m.memory("tokens", "token"))
	add("a token that landed", m.memory("value", "sale"))
	add("a task of the service", m.memory("task"))
	add("an ended order among the newest", m.memory("orders")*n/(n+bySite))
	add("a solve that a budget counts", m.memory("solves"))
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
	add("an audit row among the newest", m.memory("handouts"))
	return rows
}

// documented returns the figures of the section "Sizing".
func documented(t testing.TB) map[string]float64 {
	t.Helper()
	section, figures := sectionOf(t, "redis.md", "## Sizing"), map[string]float64{}
	for _, match := range regexp.MustCompile(`(?m)^\| ([^|]+) \| ([\d,.]+) \|`).FindAllStringSubmatch(section, -1) {
		value, err := strconv.ParseFloat(strings.ReplaceAll(match[2], ",", ""), 64)
		testkit.NoError(t, err)
		figures[match[1]] = value
	}
	return figures
}

// TestSizing: the memory that the section "Sizing" of docs/redis.md gives is right to a quarter. With -v the test
// prints the measured one.
func TestSizing(t *testing.T) {
	t.Parallel()
	figures := documented(t)
	for _, r := range memoryRows(t) {
		t.Logf("%-46s %10.1f", r.name, r.value)
		if said := figures[r.name]; math.Abs(r.value-said) > said/4 {
			t.Errorf("%s needs %.0f bytes in Redis, and docs/redis.md says %.0f", r.name, r.value, said)
		}
	}
}
