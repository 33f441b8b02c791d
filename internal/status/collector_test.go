package status

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/pool"
	"poold/internal/refill"
	"poold/internal/targets"
)

// crowd is a file of so many targets.
func crowd(n int) *targets.Set {
	list := make([]targets.Target, n)
	for i := range list {
		list[i] = newTarget(fmt.Sprintf("t%05d", i))
	}
	return newSet(list...)
}

// age is how old a snapshot is.
func age(t *testing.T, s *Snapshot) time.Duration {
	t.Helper()
	asOf, err := time.Parse(timestamp, s.Document.AsOf)
	if err != nil {
		t.Fatal(err)
	}
	return time.Since(asOf)
}

// TestManyTargets is the story of a status of many targets: the first who asks waits
// for it, and then nobody does while somebody watches, and it is 15 s old at most.
func TestManyTargets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, stock := sources(crowd(manyTargets + 1))
		const parts = manyTargets/surveyPart + 1
		stock.before = func(context.Context) error { time.Sleep(400 * time.Millisecond); return nil } // 2.4 s in all
		c := NewCollector(s)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = c.Run(ctx) })
		defer running.Wait()
		defer cancel()

		time.Sleep(time.Hour)
		if n := stock.surveys.Load(); n > 0 {
			t.Errorf("%d surveys, and nobody watches", n)
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

		// A change is shown as soon as it can be.
		time.Sleep(renewEvery)
		c.Stopping()
		time.Sleep(6 * time.Second) // a survey under way, and the next one
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

// TestAnotherSetIsShownAtOnce: also of many targets, what a reload brings is not hidden
// by a snapshot of the Set before.
func TestAnotherSetIsShownAtOnce(t *testing.T) {
	s, _ := sources(crowd(manyTargets + 1))
	c := NewCollector(s)
	c.Snapshot(t.Context())
	s.File.(*fixedFile).set = crowd(manyTargets + 2)
	if _, ok := c.Snapshot(t.Context()).Document.Target(fmt.Sprintf("t%05d", manyTargets+1)); !ok {
		t.Error("the new target is not shown")
	}
}

// TestFewTargets: a snapshot of few is made when somebody asks, and again after a
// change.
func TestFewTargets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, stock := sources(crowd(3))
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
	})
}

// TestSurveyBreaksOff: what Redis said before it went away is shown as it is, of the
// others what it said last.
func TestSurveyBreaksOff(t *testing.T) {
	set := crowd(2*surveyPart + 1)
	s, stock := sources(set)
	tell := func(requests int64) {
		for _, target := range set.Targets {
			stock.stocks[target.ID] = pool.Stock{Fresh: 1, Figures: pool.Figures{Requests: requests}}
		}
	}
	tell(7)
	c := NewCollector(s)
	if d := c.Snapshot(t.Context()).Document; !d.Redis.OK || !d.Ready || len(d.Alarms) > 0 {
		t.Fatalf("%+v", d.Redis)
	}
	tell(8)
	stock.surveys.Store(0)
	stock.before = func(context.Context) error {
		if stock.surveys.Load() == 2 {
			return errors.Join(pool.ErrDown)
		}
		return nil
	}
	c.Changed()
	d := c.Snapshot(t.Context()).Document
	if n := stock.surveys.Load(); n != 2 || d.Redis.OK || d.Ready || len(d.Alarms) != 1 {
		t.Errorf("%d surveys, %+v, alarms %q", n, d.Redis, d.Alarms)
	}
	for i, want := range map[int]Target{0: {Requests: 8, State: refill.OK}, surveyPart - 1: {Requests: 8, State: refill.OK}, surveyPart: {Requests: 7, State: refill.Starved}, 2 * surveyPart: {Requests: 7, State: refill.Starved}} {
		if got := d.Targets[i]; got.Requests != want.Requests || got.State != want.State {
			t.Errorf("target %d: %d requests, %s %q", i, got.Requests, got.State, got.Reason)
		}
	}
}

// TestHangingRedis: a status comes within a second also of many targets.
func TestHangingRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, stock := sources(crowd(10_000))
		stock.before = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		began := time.Now()
		d := NewCollector(s).Snapshot(t.Context()).Document
		if took := time.Since(began); took > time.Second || d.Redis.OK {
			t.Errorf("it took %s: %+v", took, d.Redis)
		}
	})
}
