package status

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"poold/internal/ondemand/dedup"
	"poold/internal/pool"
	"poold/internal/redisdb"
	"poold/internal/targets"
)

// solving returns the sources of a daemon with one target and the section solve.
func solving() (s Sources, stock *fixedStock, savings *fixedSavings) {
	set := newSet(newTarget("login"))
	set.Solve = &targets.Solve{Owner: "qa@example.com", Budget: targets.Budget{PerHour: 5}}
	s, stock = sources(set)
	savings = s.Savings.(*fixedSavings)
	stock.guests = pool.GuestStock{Guests: 1, Counters: pool.Counters{Hits: 3}}
	savings.days = []dedup.SavingsDay{{Date: "2026-01-02", BySource: map[dedup.SavingsSource]int64{dedup.SavedSolve: 3}}}
	return s, stock, savings
}

// These tests run in bubbles, because a busy machine may need longer than the constant patience.

// metricsNamed returns the metrics of a snapshot that have one of these names.
func metricsNamed(t *testing.T, s *Snapshot, names ...string) string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(s)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, family := range families {
		for _, name := range names {
			if family.GetName() != name {
				continue
			}
			for _, metric := range family.GetMetric() {
				fmt.Fprintln(&text, name, metric)
			}
		}
	}
	return text.String()
}

// TestGuestsWithoutASection: without the section solve, the document shows guests only while
// earlier guests exist.
func TestGuestsWithoutASection(t *testing.T) { synctest.Test(t, testGuestsWithoutASection) }

func testGuestsWithoutASection(t *testing.T) {
	s, stock, _ := solving()
	s.File.(*fixedFile).set.Solve = nil
	stock.guests.Fresh, stock.guests.Counters.Solved = 1, 3
	c := NewCollector(s)
	metrics := func(snapshot *Snapshot) string {
		return metricsNamed(t, snapshot, "poold_solve_guests", "poold_solved_total", "poold_pool_tokens", "poold_budget_limit")
	}
	snapshot := c.Snapshot(t.Context())
	d := snapshot.Document.Solve
	if d == nil || d.Guests != 1 || d.Fresh != 1 || d.Requests != 3 || d.Owner != "" || d.Budget != (Budget{}) {
		t.Errorf("while there is one: %+v", d)
	}
	if text := metrics(snapshot); !strings.Contains(text, "solve_guests") || strings.Count(text, `"/solve"`) != 2 {
		t.Errorf("while there is one: %s", text)
	}
	stock.guests = pool.GuestStock{Counters: stock.guests.Counters}
	c.Changed()
	snapshot = c.Snapshot(t.Context())
	if d := snapshot.Document; d.Solve != nil || d.Dedup == nil || d.Dedup.Requests != 3 {
		t.Errorf("%+v, %+v", d.Solve, d.Dedup)
	}
	if text := metrics(snapshot); strings.Contains(text, "solve_guests") || strings.Contains(text, "/solve") {
		t.Error(text)
	}
	stock.beforeAll = func(context.Context) error { return redisdb.ErrDown }
	c.Changed()
	if d := c.Snapshot(t.Context()).Document; d.Solve != nil {
		t.Errorf("while they cannot be read: %+v", d.Solve)
	}
}

// TestLastKnownFiguresStay: while a source of on-demand solves fails, the document contains the
// source's last known figures and the reason. The rest of the document is unaffected, and /metrics
// omits these figures.
func TestLastKnownFiguresStay(t *testing.T) { synctest.Test(t, testLastKnownFiguresStay) }

func testLastKnownFiguresStay(t *testing.T) {
	s, stock, savings := solving()
	c := NewCollector(s)
	first := c.Snapshot(t.Context()).Document
	if first.Solve.Requests != 3 || first.Solve.Reason != "" || first.Dedup.Requests != 3 || first.Dedup.Reason != "" {
		t.Fatalf("%+v, %+v", first.Solve, first.Dedup)
	}
	stock.beforeAll = func(context.Context) error { return redisdb.ErrDown }
	savings.before = func(context.Context) error { return errors.New("dial postgres://user:canary@host") }
	c.Changed()
	snapshot := c.Snapshot(t.Context())
	d := snapshot.Document
	if want := "redis does not answer; the figures are the last known ones"; d.Solve.Reason != want || d.Solve.Requests != 3 || d.Solve.Guests != 1 {
		t.Errorf("%+v", d.Solve)
	}
	if want := "they cannot be read now; the figures are the last known ones"; d.Dedup.Reason != want || d.Dedup.Requests != 3 {
		t.Errorf("%+v", d.Dedup)
	}
	if !d.Ready || !d.Redis.OK || len(d.Alarms) > 0 || d.Targets[0].State != first.Targets[0].State {
		t.Errorf("it touches the rest: %+v", d)
	}
	if body := string(encoded(t, snapshot)); strings.Contains(body, "canary") {
		t.Errorf("a password is shown: %s", body)
	}
	if text := metricsNamed(t, snapshot, "poold_solve_guests", "poold_solve_requests_today", "poold_solved_total", "poold_budget_used"); !strings.Contains(text, "login") || strings.Contains(text, "solve_") || strings.Contains(text, `"/solve"`) {
		t.Errorf("metrics of another moment: %s", text)
	}
	stock.beforeAll, savings.before = nil, nil
	stock.guests.Counters.Hits = 4
	c.Changed()
	if d := c.Snapshot(t.Context()).Document; d.Solve.Requests != 4 || d.Solve.Reason != "" || d.Dedup.Reason != "" {
		t.Errorf("it does not heal: %+v, %+v", d.Solve, d.Dedup)
	}
	// If the guests' budget cannot be read, the guests' stock does not count as current either.
	stock.spentFails = redisdb.ErrDown
	stock.guests.Counters.Hits = 5
	c.Changed()
	if d := c.Snapshot(t.Context()).Document; d.Solve.Requests != 4 || !strings.HasPrefix(d.Solve.Reason, "redis does not answer") {
		t.Errorf("without the budget: %+v", d.Solve)
	}
}

// TestSlowSource: a slow source delays only one snapshot, and the delay is the constant patience.
// The source's answer is in a later snapshot. While there are requests, each later snapshot has a
// current answer, with at most one query every few seconds.
func TestSlowSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, stock, _ := solving()
		const scrapes = 30 * time.Second
		var takes, asked atomic.Int64
		takes.Store(int64(8 * time.Second))
		stock.beforeAll = func(ctx context.Context) error {
			asked.Add(1)
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Duration(takes.Load())):
				return nil
			}
		}
		c := NewCollector(s)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = c.Run(ctx) })
		defer running.Wait()
		defer cancel()
		look := func() (*Solve, time.Duration) {
			c.Changed()
			began := time.Now()
			d := c.Snapshot(t.Context()).Document
			if d.Dedup.Reason != "" || d.Dedup.Requests != 3 {
				t.Errorf("the other source: %+v", d.Dedup)
			}
			return d.Solve, time.Since(began)
		}
		if got, took := look(); took != patience || got.Reason == "" || got.Requests != 0 {
			t.Errorf("the first one took %s: %+v", took, got)
		}
		if got, took := look(); took != 0 || got.Reason == "" {
			t.Errorf("the second one took %s: %+v", took, got)
		}
		for range 20 {
			time.Sleep(scrapes)
			if got, took := look(); got.Reason != "" || got.Requests != 3 || took > patience {
				t.Errorf("slow is not away: %s, %+v", took, got)
			}
		}
		if n, most := asked.Load(), int64(20*scrapes/(8*time.Second+renewEvery))+1; n > most {
			t.Errorf("asked %d times, want %d at most", n, most)
		}
		takes.Store(int64(time.Hour))
		time.Sleep(scrapes)
		if got, _ := look(); got.Reason == "" || got.Requests != 3 {
			t.Errorf("away: %+v", got)
		}
		time.Sleep(time.Hour)
		before := asked.Load()
		time.Sleep(time.Hour)
		if n := asked.Load() - before; n > 0 {
			t.Errorf("asked %d times without a request", n)
		}
	})
}

// TestSourceThatPanics: a panic in a source becomes a reason in the document and does not end the
// daemon.
func TestSourceThatPanics(t *testing.T) { synctest.Test(t, testSourceThatPanics) }

func testSourceThatPanics(t *testing.T) {
	s, stock, _ := solving()
	stock.beforeAll = func(context.Context) error { panic("a fault") }
	d := NewCollector(s).Snapshot(t.Context()).Document
	if d.Solve.Reason == "" || d.Dedup.Reason != "" {
		t.Errorf("%+v, %+v", d.Solve, d.Dedup)
	}
}

// TestGuestsInMetrics: all guests together have the metrics of one target.
func TestGuestsInMetrics(t *testing.T) { synctest.Test(t, testGuestsInMetrics) }

func testGuestsInMetrics(t *testing.T) {
	snapshot := NewCollector(busySources()).Snapshot(t.Context())
	const want = `
# HELP poold_solve_guests Guests, which are identities of POST /solve without a target, that are still known. Counted over all replicas, as on /status: take the maximum over instances, not the sum.
# TYPE poold_solve_guests gauge
poold_solve_guests 7
# HELP poold_solve_requests_today Requests to POST /solve since midnight UTC, when it is reset, by source: pool (the token was ready), solve (bought for the request), shared_wait (shared a solve in flight), shared_cache (shared an ended solve), replay (Idempotency-Key), missed (no token came), refused (no token can come). Counted over all replicas, as on /status: take the maximum over instances, not the sum.
# TYPE poold_solve_requests_today gauge
poold_solve_requests_today{source="missed"} 2
poold_solve_requests_today{source="pool"} 1
poold_solve_requests_today{source="refused"} 1
poold_solve_requests_today{source="replay"} 5
poold_solve_requests_today{source="shared_cache"} 4
poold_solve_requests_today{source="shared_wait"} 3
poold_solve_requests_today{source="solve"} 2
`
	if err := testutil.CollectAndCompare(snapshot, strings.NewReader(want), "poold_solve_guests", "poold_solve_requests_today"); err != nil {
		t.Error(err)
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(snapshot)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	row := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			name, ours := strings.TrimPrefix(family.GetName(), "poold_"), false
			for _, label := range metric.GetLabel() {
				if label.GetName() != "target" {
					name += " " + label.GetValue()
				} else if label.GetValue() == "/solve" {
					ours = true
				}
			}
			if ours {
				row[name] = metric.GetGauge().GetValue() + metric.GetCounter().GetValue()
			}
		}
	}
	for name, value := range map[string]float64{
		"pool_tokens": 2, "pool_in_flight": 5, "bought_in_flight": 4, "token_requests_total hit": 20, "token_requests_total waited": 60,
		"token_requests_total miss": 6, "token_requests_total refused": 1, "token_requests_total replay": 11, "tokens_returned_total": 2, "bought_total": 100, "solved_total": 84,
		"tokens_expired_total": 3, "tokens_discarded_total": 3, "orders_failed_total": 9, "orders_lost_total": 1,
		"reports_total accepted": 12, "reports_total rejected": 8, "spend_total": 0.25, "budget_used day": 33, "budget_limit day": 300,
		"target_info ops@example.com ": 1,
	} {
		if got, there := row[name]; !there || got != value {
			t.Errorf("%s: %v, want %v", name, got, value)
		}
		delete(row, name)
	}
	if len(row) > 0 {
		t.Errorf("guests have no %v", row)
	}
}
