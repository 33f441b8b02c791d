package compat

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
	"poold/internal/ondemand"
	"poold/internal/pool"
)

// Simultaneous polls of a task get the same token. Exactly one of these polls counts as the first.
func TestPollsAtTheSameTime(t *testing.T) {
	runReplicas(t, 1, func(t *testing.T, rs []*replica) {
		one := rs[0]
		one.addToken(time.Minute)
		number := one.submit()
		var mu sync.Mutex
		var polls sync.WaitGroup
		sources, values := map[pool.Source]int{}, map[string]int{}
		for range 5 {
			polls.Go(func() {
				got, err := one.Poll(t.Context(), number, caller, one.terms)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				sources[got.Token.Source]++
				values[got.Token.Value]++
			})
		}
		polls.Wait()
		if sources[pool.FromPool] != 1 || sources[pool.FromReplay] != 4 || len(values) != 1 {
			t.Errorf("%v, %v", sources, values)
		}
		one.checkFigures("one request", 0, 0, 1, 1, 0, 0)
	})
}

// A poll whose caller hangs up does not count as a delivery. The next poll counts as the first.
func TestAPollThatHangsUpDeliversNothing(t *testing.T) {
	runReplicas(t, 1, func(t *testing.T, rs []*replica) {
		one := rs[0]
		number := one.submit()
		hangUp, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := one.Poll(hangUp, number, caller, one.terms); err == nil {
			t.Error("a token for a caller that has gone")
		}
		one.addToken(time.Minute)
		if got := one.poll(number, nil); got.Source != pool.FromWait {
			t.Errorf("%+v", got)
		}
	})
}

// A task holds its resources until the task ends, even while no caller polls the task.
func TestATaskHoldsItsResources(t *testing.T) {
	runReplicas(t, 1, func(t *testing.T, rs []*replica) {
		one := rs[0]
		var held atomic.Int64
		on, _ := one.terms(Task{})
		on.Hold = func() func() {
			held.Add(1)
			return func() { held.Add(-1) }
		}
		number, err := one.Submit(t.Context(), targetTask, on)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			if time.Sleep(time.Second); held.Load() != 1 {
				t.Fatalf("held %d times while it waits", held.Load())
			}
		}
		one.poll(number, NotReady)
		one.addToken(time.Minute)
		one.poll(number, nil)
		if synctest.Wait(); held.Load() != 0 {
			t.Errorf("held %d times after its end", held.Load())
		}
	})
}

// A new task waits behind the pending callers if there are fewer tokens than pending callers.
func TestASubmitWaitsBehindPendingCallers(t *testing.T) {
	runReplicas(t, 1, func(t *testing.T, rs []*replica) {
		one := rs[0]
		one.addToken(time.Minute)
		waiting, cancel := context.WithCancel(t.Context())
		var pending sync.WaitGroup
		pending.Go(func() { // this caller waits for a token that lives longer
			_, err := one.store.Take(waiting, pool.Request{ID: target, MinTTL: 2 * time.Minute, Wait: time.Hour, MaxWaiting: 20})
			if err == nil {
				t.Error("a short token for a long life")
			}
		})
		time.Sleep(time.Second)
		number := one.submit()
		synctest.Wait()
		one.checkFigures("the submit takes a token", 0, 1, 2, 1, 0, 0)
		one.poll(number, nil)
		cancel()
		pending.Wait()
	})
}

// flakyStock is a Stock that is empty in every second call of Look.
type flakyStock struct {
	Stock
	looks atomic.Int64
}

func (b *flakyStock) Look(ctx context.Context, id captcha.ID, margin, lead time.Duration) (pool.Stock, error) {
	if b.looks.Add(1)%2 == 0 {
		return pool.Stock{}, nil
	}
	return b.Stock.Look(ctx, id, margin, lead)
}

// One look at an empty stock does not make a guest's task fail, because the token may just have
// been taken for this task.
func TestOneEmptyLookFailsNoTask(t *testing.T) {
	runReplicas(t, 1, func(t *testing.T, rs []*replica) {
		one := rs[0]
		one.stock = &flakyStock{Stock: one.stock}
		one.solver = func(ctx context.Context, r ondemand.Request) (pool.Token, error) { return one.store.Take(ctx, r.Take) }
		terms := Terms{Take: pool.Request{ID: target, Caller: caller, MaxWaiting: 20}, Guest: &ondemand.Guest{}}
		number, err := one.Submit(t.Context(), targetTask, terms)
		if err != nil {
			t.Fatal(err)
		}
		ref := pool.Ref{Identity: target, Order: "order"}
		if placed, err := one.store.Place(t.Context(), pool.Order{Ref: ref, Depth: 1000, TTL: 10 * time.Minute}); err != nil || !placed.Placed {
			t.Fatalf("placing: %+v, %v", placed, err)
		}
		time.Sleep(40 * time.Second) // the replica gives the task up
		terms.Guest = nil
		for range 10 {
			if _, err := one.Poll(t.Context(), number, caller, func(Task) (Terms, error) { return terms, nil }); !errors.Is(err, NotReady) {
				t.Fatalf("the poll: %v", err)
			}
			time.Sleep(time.Second)
		}
	})
}

// A poll at a stopping replica returns NotReady, because another replica continues the task.
func TestAPollDuringAStopIsNotReady(t *testing.T) {
	runReplicas(t, 2, func(t *testing.T, rs []*replica) {
		one, two := rs[0], rs[1]
		release := make(chan struct{})
		one.solver = func(_ context.Context, r ondemand.Request) (pool.Token, error) {
			r.Take.Parked()
			<-release
			return pool.Token{}, pool.ErrClosed
		}
		terms := Terms{Take: pool.Request{ID: target, Caller: caller, MaxWaiting: 20}, Guest: &ondemand.Guest{}}
		number, err := one.Submit(t.Context(), targetTask, terms)
		if err != nil {
			t.Fatalf("the submit: %v", err)
		}
		var poll sync.WaitGroup
		poll.Go(func() {
			if _, err := one.Poll(t.Context(), number, caller, one.terms); !errors.Is(err, NotReady) {
				t.Errorf("the poll: %v", err)
			}
		})
		time.Sleep(time.Second)
		close(release)
		poll.Wait()
		two.addToken(time.Minute)
		two.poll(number, nil)
	})
}
