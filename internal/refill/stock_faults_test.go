package refill

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/redisdb"
	"poold/internal/targets"
	"poold/internal/testkit"
)

// faultyStock is an empty stock that can inject faults.
type faultyStock struct {
	eye

	mu      sync.Mutex
	looks   int
	recall  func() ([]byte, error)    // nil = no state is saved
	retry   func() (bool, error)      // nil = succeeds
	lookAll func(look int) error      // nil = succeeds
	stock   func(look int) pool.Stock // nil = an empty one
}

func newFaultyStock() *faultyStock {
	s := &faultyStock{}
	s.eye = func(context.Context) (pool.Stock, error) {
		if s.stock == nil {
			return pool.Stock{NextLook: -1}, nil
		}
		return s.stock(s.looks), nil
	}
	return s
}

// change calls the function `do`, which changes the faults. During the call, change holds the lock.
func (s *faultyStock) change(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

func (s *faultyStock) LookAll(ctx context.Context, queries []pool.Query) ([]pool.Stock, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks++
	if s.lookAll != nil {
		if err := s.lookAll(s.looks); err != nil {
			return nil, err
		}
	}
	return s.eye.LookAll(ctx, queries)
}

func (s *faultyStock) Recall(context.Context, captcha.ID) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recall == nil {
		return nil, nil
	}
	return s.recall()
}

func (s *faultyStock) Retry(context.Context, captcha.ID) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.retry == nil {
		return true, nil
	}
	return s.retry()
}

func (c *counter) orders() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.placed
}

// down is the error of a stock during an outage of Redis.
var down = redisdb.Down(errors.New("READONLY you cannot write against a replica"))

// adaptive returns an adaptive target, whose learned state is saved.
func adaptive() targets.Target {
	x := target("login", 5)
	x.Refill, x.Min, x.HitRate, x.MaxWaste = targets.RefillAdaptive, 1, 0.9, 3
	return x
}

// While the learned state cannot be read, nothing is bought, there are no looks, and the status has
// the reason. When the state can be read, the target is filled.
func TestNothingIsBoughtBeforeTheLearnedStateIsRead(t *testing.T) {
	s := newFaultyStock()
	s.recall = func() ([]byte, error) { return nil, down }
	buyer := &counter{}
	withCounter(t, s, buyer, adaptive(), func(t *testing.T, m *Manager, log *testkit.Log) {
		time.Sleep(20 * time.Second)
		synctest.Wait()
		n, _ := m.Status("login")
		s.change(func() {
			if s.looks != 0 || buyer.orders() != 0 || n.State != Starved || n.Reason != redisdb.Reason(down) {
				t.Errorf("%d looks, %d orders, status %+v", s.looks, buyer.orders(), n)
			}
			if tries := log.Count("level=DEBUG", "stock not reached", "target=login"); tries < 8 || tries > 20 {
				t.Errorf("%d tries in 20 s:\n%s", tries, log)
			}
			s.recall = nil
		})
		time.Sleep(awayMost)
		synctest.Wait()
		if n, _ := m.Status("login"); buyer.orders() == 0 || n.State == Starved && n.Reason == redisdb.Reason(down) {
			t.Errorf("afterwards: %d orders, status %+v", buyer.orders(), n)
		}
	})
}

// An unreadable learned state is logged once as a warning. Afterwards the target is filled.
func TestAnUnreadableLearnedStateIsDropped(t *testing.T) {
	s := newFaultyStock()
	s.recall = func() ([]byte, error) { return []byte("junk"), nil }
	buyer := &counter{}
	withCounter(t, s, buyer, adaptive(), func(t *testing.T, _ *Manager, log *testkit.Log) {
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := log.Count("level=WARN", "the learned demand is dropped, and learned again", "target=login", "err="); n != 1 {
			t.Errorf("logged %d times:\n%s", n, log)
		}
		if buyer.orders() == 0 {
			t.Error("nothing was bought")
		}
	})
}

// If the look with the learned lead time fails, no order is based on the result of the previous
// look. The worker retries with a backoff.
func TestNothingIsBoughtIfTheSecondLookFails(t *testing.T) {
	s := newFaultyStock()
	fails := true
	s.stock = func(look int) pool.Stock {
		lead := time.Duration(10+look) * time.Second // the lead time is different at each look
		return pool.Stock{NextLook: -1, Leads: []time.Duration{lead, lead, lead}}
	}
	s.lookAll = func(look int) error {
		if fails && look%2 == 0 {
			return down
		}
		return nil
	}
	buyer := &counter{}
	withCounter(t, s, buyer, target("login", 5), func(t *testing.T, m *Manager, log *testkit.Log) {
		time.Sleep(20 * time.Second)
		synctest.Wait()
		n, _ := m.Status("login")
		s.change(func() {
			if s.looks < 16 || s.looks > 40 || buyer.orders() != 0 || n.State != Starved || n.Reason != redisdb.Reason(down) {
				t.Errorf("%d looks, %d orders, status %+v", s.looks, buyer.orders(), n)
			}
			fails = false
		})
		time.Sleep(awayMost)
		synctest.Wait()
		if buyer.orders() == 0 {
			t.Errorf("nothing was bought afterwards:\n%s", log)
		}
	})
}

// The loop that looks at the targets turns while the stock fails or hangs, so that a watchdog does not
// restart the process for an outage of Redis.
func TestTheLoopTurnsWithoutTheStock(t *testing.T) {
	s := newFaultyStock()
	fault := errors.New("redis is away")
	s.lookAll = func(int) error { return fault }
	withCounter(t, s, &counter{}, target("t", 1), func(t *testing.T, m *Manager, _ *testkit.Log) {
		turned := func(what string) {
			t.Helper()
			for range 20 {
				time.Sleep(time.Second)
				if idle := time.Since(m.LastTurn()); idle > hangsAfter {
					t.Fatalf("%s, and the loop did not turn for %v", what, idle)
				}
			}
		}
		turned("the stock fails")
		s.change(func() { s.lookAll = func(int) error { time.Sleep(3 * time.Second); return fault } })
		turned("the stock answers after 3 s")
	})
	if m := NewManager(s, alone{}, &counter{}, noOthers, new(testkit.Log).Logger()); !m.LastTurn().IsZero() {
		t.Error("a manager that does not run has a turn")
	}
}
