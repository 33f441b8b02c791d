package status

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/pool"
	"poold/internal/redisdb"
	"poold/internal/refill"
	"poold/internal/targets"
)

func setOf(n int) *targets.Set {
	list := make([]targets.Target, n)
	for i := range list {
		list[i] = newTarget(fmt.Sprintf("t%05d", i))
	}
	return newSet(list...)
}

func age(t *testing.T, s *Snapshot) time.Duration {
	t.Helper()
	asOf, err := time.Parse(timestamp, s.Document.AsOf)
	if err != nil {
		t.Fatal(err)
	}
	return time.Since(asOf)
}

// TestManyTargets: with many targets only the first reader waits for a snapshot. Later readers do
// not wait: while there are requests, they get a snapshot that is at most 15 s old.
func TestManyTargets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, stock := sources(setOf(manyTargets + 1))
		const parts = manyTargets/surveyPart + 1
		stock.before = func(context.Context) error { time.Sleep(50 * time.Millisecond); return nil } // 2.1 s for the whole survey
		c := NewCollector(s)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = c.Run(ctx) })
		defer running.Wait()
		defer cancel()

		time.Sleep(time.Hour)
		if n := stock.surveys.Load(); n > 0 {
			t.Errorf("%d surveys without a request", n)
		}
		c.Snapshot(t.Context())
		var oldest time.Duration
		for range 120 {
			time.Sleep(time.Second)
			asked := time.Now()
			snapshot := c.Snapshot(t.Context())
			if took := time.Since(asked); took > 0 {
				t.Errorf("it took %s", took)
			}
			oldest = max(oldest, age(t, snapshot))
		}
		if oldest > 15*time.Second || oldest < renewEvery {
			t.Errorf("the oldest was of %s ago", oldest)
		}

		// The first snapshot that is begun after a change shows the change.
		time.Sleep(renewEvery)
		c.Stopping()
		time.Sleep(6 * time.Second) // the duration of the current survey and of the next survey
		if c.Snapshot(t.Context()).Document.Ready {
			t.Error("a change is not shown")
		}

		time.Sleep(watchedFor + renewEvery)
		before := stock.surveys.Load()
		time.Sleep(time.Hour)
		if n := stock.surveys.Load() - before; n > 0 {
			t.Errorf("%d surveys after the last one looked", n)
		}
		if got := age(t, c.Snapshot(t.Context())); got > 3*time.Second {
			t.Errorf("who comes after an hour is shown what was %s ago", got)
		}
		if n := stock.surveys.Load() - before; n != parts {
			t.Errorf("%d surveys for one snapshot, want %d", n, parts)
		}
	})
}

// TestUnreadableTargetsKeepTheirLastFigures: the targets that Redis cannot read show their last known figures. After a
// failure the survey asks Redis no more.
func TestUnreadableTargetsKeepTheirLastFigures(t *testing.T) {
	fails := func(context.Context) error { return redisdb.ErrDown }
	hangs := func(ctx context.Context) error { <-ctx.Done(); return redisdb.Down(ctx.Err()) }
	for name, second := range map[string]func(context.Context) error{"fails": fails, "hangs": hangs} { // the second part of three
		synctest.Test(t, func(t *testing.T) {
			set := setOf(2*surveyPart + 1)
			s, stock := sources(set)
			tell := func(hits int64) {
				for _, target := range set.Targets {
					stock.stocks[target.ID] = pool.Stock{Counts: pool.Counts{Fresh: 1, Counters: pool.Counters{Hits: hits}}}
				}
			}
			tell(7)
			c := NewCollector(s)
			c.Snapshot(t.Context())
			tell(8)
			stock.surveys.Store(0)
			stock.before = func(ctx context.Context) error {
				if stock.surveys.Load() == 2 {
					return second(ctx)
				}
				return nil
			}
			c.Changed()
			d := c.Snapshot(t.Context()).Document
			if n := stock.surveys.Load(); n != 2 || !d.Redis.OK || !d.Ready || len(d.Alarms) > 0 {
				t.Errorf("%s: %d surveys, %+v, alarms %q", name, n, d.Redis, d.Alarms)
			}
			for i, hits := range map[int]int64{0: 8, surveyPart - 1: 8, surveyPart: 7, 2*surveyPart - 1: 7, 2 * surveyPart: 7} {
				want := refill.OK + " starting"
				if hits == 7 {
					want = refill.Starved + " redis does not answer; the figures are the last known ones"
				}
				if got := d.Targets[i]; got.Hits != hits || got.State+" "+got.Reason != want {
					t.Errorf("%s: target %d: %d hits, %s %q", name, i, got.Hits, got.State, got.Reason)
				}
			}
			// A second failing survey also leaves the last known figures.
			stock.before = fails
			c.Changed()
			for i, target := range c.Snapshot(t.Context()).Document.Targets {
				if want := d.Targets[i].Hits; target.Hits != want {
					t.Fatalf("%s: target %d: %d hits, want %d", name, i, target.Hits, want)
				}
			}
		})
	}
}

// While Redis is down or the budget cannot be read, the document contains the last known budget,
// and the metrics omit the budget.
func TestTheLastKnownBudgetStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := setOf(1)
		set.Budget.PerDay = 10
		s, stock := sources(set)
		spend := func(n int, err error) { stock.spent[pool.ScopeAll], stock.spentFails = [2]int{1, n}, err }
		spend(3, nil)
		c := NewCollector(s)
		shows := func(what string, used int, metric bool) {
			t.Helper()
			c.Changed()
			snapshot := c.Snapshot(t.Context())
			if b := snapshot.Document.Budget; b == nil || *b != (Usage{Used: used, Limit: 10}) {
				t.Errorf("%s: %+v", what, b)
			}
			if shown := strings.Contains(metricsNamed(t, snapshot, "poold_budget_used"), `"*"`); shown != metric {
				t.Errorf("%s: in the metrics %v", what, shown)
			}
		}
		shows("at first", 3, true)
		spend(4, nil)
		stock.before = func(context.Context) error { return redisdb.ErrDown }
		shows("without Redis", 3, false)
		stock.before = nil
		shows("with Redis", 4, true)
		spend(0, redisdb.ErrDown)
		shows("unread", 4, false)
		shows("unread again", 4, false)
		spend(5, nil)
		shows("read again", 5, true)
	})
}

// The stock is queried with the margin of the target, and with the lead time that the last snapshot found.
func TestQueriesOfASurvey(t *testing.T) {
	s, stock := sources(setOf(2))
	set := s.File.Current()
	stock.change(set.Targets[1].ID, decided(pool.Stock{}, refill.Status{State: refill.OK, Lead: 7 * time.Second}))
	c := NewCollector(s)
	c.Snapshot(t.Context())
	c.Changed()
	c.Snapshot(t.Context())
	want := []pool.Query{
		{ID: set.Targets[0].ID, Margin: 40 * time.Second, Lead: unknownLead},
		{ID: set.Targets[1].ID, Margin: 40 * time.Second, Lead: 7 * time.Second},
	}
	if !slices.Equal(stock.queries, want) {
		t.Errorf("%+v, want %+v", stock.queries, want)
	}
}
