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
	"poold/internal/testkit"
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
		stock.before = func(context.Context) error { time.Sleep(100 * time.Millisecond); return nil } // 2.1 s for the whole survey
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

// TestManyTargetsReuseReads: with many targets a snapshot reuses the stocks that the workers have read.
// It reads the other stocks. With few targets or while Redis is down, it reads all stocks.
func TestManyTargetsReuseReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, x := range map[string]struct {
			targets    int
			down       bool
			read       int // number of queries
			fresh      int
			nextExpiry float64
		}{
			"many":               {manyTargets + 1, false, manyTargets, 7, 50},
			"few":                {manyTargets, false, manyTargets, 8, 90},
			"many without Redis": {manyTargets + 1, true, manyTargets + 1, 8, 90},
		} {
			set := setOf(x.targets)
			s, stock := sources(set)
			stock.down = x.down
			for i := range set.Targets {
				stock.stocks[set.Targets[i].ID] = pool.Stock{Fresh: 8, NextExpiry: 90 * time.Second}
			}
			read := pool.Stock{Fresh: 7, NextExpiry: time.Minute}
			s.Refill = &reading{target: "t00002", stock: read, read: time.Now().Add(-10 * time.Second)}
			document := NewCollector(s).Snapshot(t.Context()).Document
			got := document.Targets[2]
			if stock.asked != x.read || got.Fresh != x.fresh || *got.NextExpiry != x.nextExpiry {
				t.Errorf("%s: %d stocks read, %d fresh tokens, the next expires in %v s", name, stock.asked, got.Fresh, *got.NextExpiry)
			}
			if others := document.Targets[3]; others.Fresh != 8 {
				t.Errorf("%s: %d fresh tokens of another target", name, others.Fresh)
			}
		}
	})
}

// TestAnotherSetIsShownAtOnce: after a reload no snapshot of the previous Set is returned, even
// with many targets.
func TestAnotherSetIsShownAtOnce(t *testing.T) {
	s, _ := sources(setOf(manyTargets + 1))
	c := NewCollector(s)
	c.Snapshot(t.Context())
	s.File.(*fixedFile).set = setOf(manyTargets + 2)
	if _, ok := c.Snapshot(t.Context()).Document.Target(fmt.Sprintf("t%05d", manyTargets+1)); !ok {
		t.Error("the new target is not shown")
	}
}

// TestFewTargets: with few targets a snapshot is made on request, and again after a change.
func TestFewTargets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, stock := sources(setOf(3))
		c := NewCollector(s)
		c.Snapshot(t.Context())
		time.Sleep(snapshotLife - 1)
		first := c.Snapshot(t.Context())
		if stock.surveys.Load() != 1 {
			t.Error("two surveys within the life of one")
		}
		c.Changed()
		if c.Snapshot(t.Context()) == first {
			t.Error("a change is not shown")
		}
		time.Sleep(snapshotLife)
		if got := age(t, c.Snapshot(t.Context())); got > time.Millisecond {
			t.Errorf("shown what was %s ago", got)
		}
		c.Stopping()
		if c.Snapshot(t.Context()).Document.Ready {
			t.Error("ready, although it stops")
		}
	})
}

// TestUnreadableIdentitiesKeepTheirLastFigures: the targets that Redis cannot read show their last
// known figures. If Redis hangs, the survey sends no further requests.
func TestUnreadableIdentitiesKeepTheirLastFigures(t *testing.T) {
	fails := func(context.Context) error { return redisdb.ErrDown }
	hangs := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for name, test := range map[string]struct {
		second  func(context.Context) error // the second part of three
		surveys int64
		third   int64 // requests of the third part
	}{"fails": {fails, 3, 8}, "hangs": {hangs, 2, 7}} {
		synctest.Test(t, func(t *testing.T) {
			set := setOf(2*surveyPart + 1)
			s, stock := sources(set)
			tell := func(requests int64) {
				for _, target := range set.Targets {
					stock.stocks[target.ID] = pool.Stock{Fresh: 1, Figures: pool.Figures{Requests: requests}}
				}
			}
			tell(7)
			c := NewCollector(s)
			c.Snapshot(t.Context())
			tell(8)
			stock.surveys.Store(0)
			stock.before = func(ctx context.Context) error {
				if stock.surveys.Load() == 2 {
					return test.second(ctx)
				}
				return nil
			}
			c.Changed()
			d := c.Snapshot(t.Context()).Document
			if n := stock.surveys.Load(); n != test.surveys || !d.Redis.OK || !d.Ready || len(d.Alarms) > 0 {
				t.Errorf("%s: %d surveys, %+v, alarms %q", name, n, d.Redis, d.Alarms)
			}
			for i, requests := range map[int]int64{0: 8, surveyPart - 1: 8, surveyPart: 7, 2*surveyPart - 1: 7, 2 * surveyPart: test.third} {
				want := refill.OK + " starting"
				if requests == 7 {
					want = refill.Starved + " redis does not answer; the figures are the last known ones"
				}
				if got := d.Targets[i]; got.Requests != requests || got.State+" "+got.Reason != want {
					t.Errorf("%s: target %d: %d requests, %s %q", name, i, got.Requests, got.State, got.Reason)
				}
			}
			// A second failing survey also leaves the last known figures.
			stock.before = fails
			c.Changed()
			for i, target := range c.Snapshot(t.Context()).Document.Targets {
				if want := d.Targets[i].Requests; target.Requests != want {
					t.Fatalf("%s: target %d: %d requests, want %d", name, i, target.Requests, want)
				}
			}
		})
	}
}

func TestHangingRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, stock := sources(setOf(10_000))
		stock.before = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		began := time.Now()
		d := NewCollector(s).Snapshot(t.Context()).Document
		if took := time.Since(began); took > time.Second || d.Redis.OK {
			t.Errorf("it took %s: %+v", took, d.Redis)
		}
	})
}

// While Redis is down or the budget cannot be read, the document contains the last known budget,
// and the metrics omit the budget.
func TestTheLastKnownBudgetStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, stock := sources(setOf(1))
		buyer, _ := s.Purchases.(*fixedBuyer)
		buyer.used, buyer.perDay = 3, 10
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
		buyer.used = 4
		stock.before = func(context.Context) error { return redisdb.ErrDown }
		shows("without Redis", 3, false)
		stock.before = nil
		shows("with Redis", 4, true)
		buyer.used, buyer.down = 0, redisdb.ErrDown
		shows("unread", 4, false)
		shows("unread again", 4, false)
		buyer.used, buyer.down = 5, nil
		shows("read again", 5, true)
	})
}

// If the reports of other replicas cannot be read, the status shows what this replica knows. The
// log contains the cause.
func TestAStatusWithoutTheReportsOfOtherReplicas(t *testing.T) {
	var log testkit.Log
	s, _ := sources(setOf(1))
	s.Refill, s.Log = unreachable{fixedRefill{"t00000": {State: refill.OK, Want: 4}}}, log.Logger()
	if d := NewCollector(s).Snapshot(t.Context()).Document; !d.Ready || len(d.Targets) != 1 || d.Targets[0].Want != 4 {
		t.Errorf("shown %+v", d)
	}
	if log.Count("level=DEBUG", "reports of other replicas not read", redisdb.ErrDown.Error()) != 1 {
		t.Errorf("logged %s", log.String())
	}
}

// The query for the state of the providers does not end with the first caller, which may have hung up.
func TestProvidersAreReadForAllCallers(t *testing.T) {
	s, _ := sources(setOf(1))
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if reason, _, is := NewCollector(s).Outage(gone); is {
		t.Errorf("an outage: %s", reason)
	}
}

// The stock is queried with the margin and the lead time of the target.
func TestQueriesOfASurvey(t *testing.T) {
	s, stock := sources(setOf(2))
	s.Refill = fixedRefill{"t00001": {State: refill.OK, Lead: 7 * time.Second}}
	NewCollector(s).Snapshot(t.Context())
	set := s.File.Current()
	want := []pool.Query{
		{ID: set.Targets[0].ID, Margin: 40 * time.Second, Lead: unknownLead, Hour: true},
		{ID: set.Targets[1].ID, Margin: 40 * time.Second, Lead: 7 * time.Second, Hour: true},
	}
	if !slices.Equal(stock.queries, want) {
		t.Errorf("%+v, want %+v", stock.queries, want)
	}
}
