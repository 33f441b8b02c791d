package httpapi

import (
	"maps"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/targets"
	"poold/internal/testkit"
)

// fillMetrics causes an event for every metric, so that each metric has a series.
func fillMetrics(t *testing.T, d *daemon) {
	t.Helper()
	for _, target := range []string{"checkout", "staging-login"} {
		d.stock.landToken(t, d.stock.order(t, d.target(target)), 42*time.Second)
		e := purchase.Purchase{Target: target, Provider: "solver", Outcome: pool.Solved}
		d.Metrics.Ended(e, 18*time.Second)
		e.Outcome = pool.Refused
		d.Metrics.Ended(e, time.Hour)
		d.ask(t, "GET", "/pool/"+target+"/token").check(t, "the answer", 200)
	}
	balance, set := 12.5, *d.config.Current()
	d.provider.State.Balance = &balance
	set.Budget.PerDay, set.Solve = 20000, &targets.Solve{Owner: "ops@example.com", Budget: targets.Budget{PerDay: 300}}
	d.config.set.Store(&set)
	for counter := range reflect.TypeFor[pool.Counters]().Fields() {
		d.stock.redis.HSet(key("stats", d.target("checkout")), strings.ToLower(counter.Name), "3")
	}
	for range 3 {
		d.Metrics.Provider("solver")("submit", "ok")
	}
	d.Metrics.Count("callback", "solver", purchase.CallbackSettled)
	d.Metrics.Count("dead_letter", "solver", purchase.DeadLetterDropped)
	d.Metrics.Count("report", "solver", purchase.ReportLate)
	d.Metrics.Reported(false, 31*time.Second)
	// A request is counted after its response was sent.
	testkit.Within(t, 20*time.Second, "two requests are counted",
		func() bool { return testutil.ToFloat64(d.Metrics.requests.WithLabelValues("200")) == 2 })
}

// TestCompleteMetrics: /metrics has the lines of testdata/metrics.txt, nothing secret, and exactly the
// metrics of docs/operating.md.
func TestCompleteMetrics(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	fillMetrics(t, d)
	a := d.ask(t, "GET", "/metrics")
	if a.status != 200 || !strings.HasPrefix(a.header.Get("Content-Type"), "text/plain") ||
		a.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v", a.status, a.header)
	}
	want, err := os.ReadFile("testdata/metrics.txt")
	testkit.NoError(t, err)
	for line := range strings.Lines(string(want)) {
		a.check(t, "a line", 200, line)
	}
	testkit.Equal(t, "states of three targets", strings.Count(a.body, "\npoold_target_state{"), 3)
	a.check(t, "the build", 200, "poold_build_info{", `version="1.2.3"`, `revision="abcdef0"`, "go_goroutines",
		"process_open_fds")
	for _, part := range []string{"canary", `poold_pool_waste_credit{target="checkout"`,
		`poold_target_hit_rate_objective{target="checkout"`, `poold_budget_used{target="checkout"`,
		`poold_budget_used{target="staging-signup",window="hour"}`} {
		if strings.Contains(a.body, part) {
			t.Errorf("shows %s: a token, a key, or what a target does not have", part)
		}
	}

	// docs/operating.md lists the name of each metric, and Prometheus' linter finds no fault.
	page, sides := docsPage(t, "operating.md"), map[string]int{}
	for _, line := range regexp.MustCompile(`(?m)^# TYPE (poold_\S+)`).FindAllStringSubmatch(a.body, -1) {
		sides[line[1]]++
	}
	for _, line := range regexp.MustCompile("(?m)^- `(poold_\\w+)`").FindAllStringSubmatch(page, -1) {
		sides[line[1]]--
	}
	// The sample set has no history, so /metrics lacks these documented names.
	for _, name := range []string{"poold_history_up", "poold_history_records_total", "poold_history_unrecorded_total"} {
		sides[name]++
	}
	maps.DeleteFunc(sides, func(_ string, n int) bool { return n == 0 })
	testkit.DeepEqual(t, "names only in /metrics (1), or only in docs/operating.md (-1)", sides, map[string]int{})
	state := prometheus.NewPedanticRegistry()
	testkit.NoError(t, state.Register(d.Status))
	for _, registry := range []prometheus.Gatherer{d.Metrics.registry, state} {
		problems, err := testutil.GatherAndLint(registry)
		if err != nil || len(problems) > 0 {
			t.Errorf("%v %v", problems, err)
		}
	}
}

// A target has at most 15 series, not counting rare events and budgets.
func TestSeriesOfATarget(t *testing.T) {
	set := sampleSet()
	set.Targets[0].Refill = targets.RefillAdaptive
	d := start(t, set, nil, nil)
	body := d.ask(t, "GET", "/metrics").body
	testkit.Equal(t, "series of a target", strings.Count(body, `target="checkout"`), 15)
}
