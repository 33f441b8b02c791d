package httpapi

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"poold/internal/listener"
	"poold/internal/pool"
	"poold/internal/provider"
	"poold/internal/purchase"
	"poold/internal/testkit"
)

// fillMetrics causes an event for every metric, so that each metric has a series.
func fillMetrics(t *testing.T, d *daemon) {
	t.Helper()
	for _, target := range []string{"checkout", "staging-login"} {
		d.stock.landToken(t, d.stock.order(t, d.target(target)), 42*time.Second)
		e := purchase.Purchase{Target: target, Provider: "solver", Outcome: pool.Solved, Submitted: time.Now()}
		e.Solved = e.Submitted.Add(18 * time.Second)
		d.metrics.Ended(e)
		e.Outcome, e.Solved = pool.Refused, e.Submitted.Add(time.Hour)
		d.metrics.Ended(e)
		d.ask(t, "GET", "/pool/"+target+"/token").check(t, "the answer", 200)
	}
	busyDay(t, d)
	if n := d.metrics.CallsPerToken("solver"); n != 0 {
		t.Errorf("%v calls for a token, of none", n)
	}
	for range 3 {
		d.metrics.Provider("solver")("submit", "ok")
	}
	if n := d.metrics.CallsPerToken("solver"); n != 1.5 {
		t.Errorf("%v calls for a token, of 3 for 2", n)
	}
	d.metrics.Count("callback", "solver", purchase.CallbackSettled)
	d.metrics.Count("dead_letter", "solver", purchase.DeadLetterDropped)
	d.metrics.Count("report", "solver", purchase.ReportLate)
	d.metrics.Reported(false, 31*time.Second)
	// A request is counted after its response was sent.
	testkit.Within(t, 20*time.Second, "two requests are counted", func() bool { return testutil.ToFloat64(d.metrics.requests.WithLabelValues("200")) == 2 })
}

func TestMetricsOfTheSampleSet(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	fillMetrics(t, d)
	a := d.ask(t, "GET", "/metrics")
	if a.status != 200 || !strings.HasPrefix(a.header.Get("Content-Type"), "text/plain") || a.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v", a.status, a.header)
	}
	for _, line := range []string{
		`poold_pool_tokens{target="staging-login"} 3`,
		`poold_pool_want{target="staging-login"} 4`,
		`poold_pool_waste_credit{target="staging-login"} -2.501`,
		`poold_pool_in_flight{target="staging-login"} 4`,
		`poold_bought_in_flight{target="staging-login"} 2`,
		`poold_orders_unknown{target="staging-login"} 1`,
		`poold_bought_total{target="staging-login"} 115`,
		`poold_solved_total{target="staging-login"} 110`,
		`poold_tokens_returned_total{target="staging-login"} 3`,
		`poold_orders_failed_total{target="staging-login"} 2`,
		`poold_orders_lost_total{target="staging-login"} 1`,
		`poold_tokens_discarded_total{target="staging-login"} 6`,
		`poold_reports_total{outcome="accepted",target="staging-login"} 9`,
		`poold_reports_total{outcome="rejected",target="staging-login"} 7`,
		`poold_spend_total{target="staging-login"} 0.105123`,
		`poold_budget_used{target="staging-login",window="hour"} 8`,
		`poold_budget_limit{target="staging-login",window="hour"} 10`,
		`poold_budget_used{target="staging-login",window="day"} 77`,
		`poold_budget_limit{target="staging-login",window="day"} 500`,
		`poold_budget_used{target="staging-signup",window="day"} 20`,
		`poold_budget_used{target="*",window="day"} 1234`,
		`poold_budget_limit{target="*",window="day"} 20000`,
		`poold_dead_letters 2`,
		`poold_callbacks_total{outcome="settled"} 1`,
		`poold_dead_letters_total{outcome="dropped"} 1`,
		`poold_provider_reports_total{outcome="late",provider="solver"} 1`,
		`poold_token_report_age_seconds_sum{outcome="rejected"} 31`,
		`poold_token_requests_total{outcome="hit",target="staging-login"} 97`,
		`poold_token_requests_total{outcome="waited",target="staging-login"} 2`,
		`poold_token_requests_total{outcome="miss",target="staging-login"} 1`,
		`poold_token_requests_total{outcome="replay",target="staging-login"} 4`,
		`poold_tokens_expired_total{target="staging-login"} 5`,
		`poold_token_age_seconds_count 2`,
		`poold_token_age_seconds_bucket{le="45"} 2`, // a token was 42 s old
		`poold_token_wait_seconds_count 2`,
		`poold_solves_total{outcome="solved",provider="solver"} 2`,
		`poold_solves_total{outcome="failed",provider="solver"} 2`,
		`poold_solve_duration_seconds_count{provider="solver"} 2`,
		`poold_solve_duration_seconds_sum{provider="solver"} 36`,
		`poold_provider_requests_total{action="submit",outcome="ok",provider="solver"} 3`,
		`poold_provider_up{provider="solver"} 1`, // a busy provider counts as up
		`poold_provider_balance{provider="solver"} 12.5`,
		`poold_provider_order_share{provider="solver",type="hcaptcha"} 0.25`,
		`poold_provider_token_cost{provider="solver",type="hcaptcha"} 0.0012`,
		`poold_provider_solved_ratio{provider="solver",type="turnstile"} 0.95`,
		`poold_provider_accepted_ratio{provider="solver",type="hcaptcha"} 0.8`,
		`poold_target_wanted_hit_rate{target="staging-login"} 0.97`,
		`poold_target_info{owner="qa@example.com",target="staging-login",type="recaptcha_v2"} 1`,
		`poold_target_info{owner="ops@example.com",target="/solve",type=""} 1`,
		`poold_target_state{state="starved",target="staging-login"} 1`,
		`poold_target_state{state="paused",target="checkout"} 1`,
		`poold_target_state{state="refused",target="staging-signup"} 1`,
		`poold_config_last_reload_successful 1`,
		`poold_redis_up 1`,
		`poold_http_requests_total{code="200"} 2`,
		`poold_connections 3`,
		`poold_connections_refused_total 4`,
	} {
		a.check(t, "a line", 200, line+"\n")
	}
	if n := strings.Count(a.body, "\npoold_target_state{"); n != 3 {
		t.Errorf("%d states of three targets", n)
	}
	a.check(t, "the build", 200, "poold_build_info{", `version="1.2.3"`, `revision="abcdef0"`, "go_goroutines", "process_open_fds")
	for _, part := range []string{"canary", `poold_pool_waste_credit{target="checkout"`, `poold_target_wanted_hit_rate{target="checkout"`, `poold_budget_used{target="checkout"`, `poold_budget_used{target="staging-signup",window="hour"}`} {
		if strings.Contains(a.body, part) {
			t.Errorf("shows %s: a token, a key, or what a target does not have", part)
		}
	}

	// docs/metrics.md lists the name of each metric, and Prometheus' linter finds no fault.
	var names, documented []string
	for _, line := range regexp.MustCompile(`(?m)^# TYPE (poold_\S+)`).FindAllStringSubmatch(a.body, -1) {
		names = append(names, line[1])
	}
	for _, line := range regexp.MustCompile("(?m)^\\| `(poold_\\w+)`").FindAllStringSubmatch(docsPage(t, "metrics.md"), -1) {
		documented = append(documented, line[1])
	}
	// The sample set has no history, so /metrics lacks these documented names.
	names = append(names, "poold_history_up", "poold_history_records_total", "poold_history_unrecorded_total",
		"poold_audit_entries_total", "poold_audit_dropped_total")
	slices.Sort(names)
	if slices.Sort(documented); !slices.Equal(names, documented) {
		t.Errorf("/metrics has %q\nthe page %q", names, documented)
	}
	state := prometheus.NewPedanticRegistry()
	noError(t, state.Register(d.status.Snapshot(t.Context())))
	for _, registry := range []prometheus.Gatherer{d.metrics.registry, state} {
		problems, err := testutil.GatherAndLint(registry)
		if err != nil || len(problems) > 0 {
			t.Errorf("%v %v", problems, err)
		}
	}
}

// A target with a fixed depth, without a budget and without rare events has 17 series.
func TestSeriesOfATarget(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	body := d.ask(t, "GET", "/metrics").body
	if n := strings.Count(body, `target="checkout"`); n != 17 {
		t.Errorf("%d series", n)
	}
}

func TestMetricsWithoutRedisOmitFigures(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	fillMetrics(t, d)
	d.provider.State.Kind = provider.StateDown
	d.config.refused = true
	d.stock.redis.SetDown(true)
	d.savings.err = pool.ErrDown
	body := d.ask(t, "GET", "/metrics").body
	for _, name := range []string{
		"poold_token_requests_total", "poold_tokens_expired_total", "poold_pool_tokens", "poold_pool_in_flight", "poold_bought_in_flight", "poold_orders_unknown",
		"poold_bought_total", "poold_solved_total", "poold_tokens_returned_total", "poold_tokens_discarded_total", "poold_orders_failed_total",
		"poold_orders_lost_total", "poold_reports_total", "poold_spend_total", "poold_budget_used", "poold_budget_limit",
		"poold_solve_guests", "poold_solve_requests_today",
	} {
		if strings.Contains(body, "\n"+name+"{") || strings.Contains(body, "\n"+name+" ") {
			t.Errorf("%s is shown although it is unknown", name)
		}
	}
	for _, line := range []string{"poold_redis_up 0", "poold_dead_letters 2", "poold_config_last_reload_successful 0", `poold_provider_up{provider="solver"} 0`, `poold_token_age_seconds_count 2`} {
		if !strings.Contains(body, line+"\n") {
			t.Errorf("no %s", line)
		}
	}
}

// TestOutcomesOfOrders: the ends of orders that mean the same have one outcome in the metrics.
func TestOutcomesOfOrders(t *testing.T) {
	m := NewMetrics("", "", func() (none listener.Counts) { return none })
	for _, p := range []purchase.Purchase{
		{Outcome: pool.Solved}, {Outcome: pool.Expired}, {Outcome: pool.Failed}, {Outcome: pool.Refused}, {Outcome: pool.Repeated}, {Outcome: pool.Lost},
		{Outcome: pool.Hopeless}, {Outcome: pool.Hopeless, Task: "7"}, {Outcome: pool.Busy}, {Outcome: pool.Fault},
	} {
		p.Provider = "solver"
		m.Ended(p)
	}
	for outcome, n := range map[string]float64{"solved": 2, "failed": 4, "lost": 1, "refused": 1, "busy": 2} {
		equal(t, outcome, testutil.ToFloat64(m.solves.WithLabelValues("solver", outcome)), n)
	}
	equal(t, "outcomes", testutil.CollectAndCount(m.solves), 5)
}
