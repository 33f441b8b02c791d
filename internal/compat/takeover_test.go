package compat

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"poold/internal/ondemand"
	"poold/internal/pool"
	"poold/internal/redisdb"
	"poold/internal/testkit"
)

// crashWait ends the wait of a task as a crash does: the lease and the ticket are neither renewed
// nor released.
func (r *replica) crashWait(number string) {
	r.mu.Lock()
	w := r.waiting[number]
	delete(r.waiting, number)
	r.mu.Unlock()
	r.t.Cleanup(w.end)
}

func (r *replica) hasWaiter(number string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waiting[number] != nil
}

// After a replica has given a task up, the next poll at another replica can continue the task
// before the lease expires.
func TestAReleasedTaskIsFreeAtOnce(t *testing.T) {
	noTerms := errors.New("no terms")
	for name, release := range map[string]func(one *replica, number string){
		"no token can come": func(one *replica, number string) {
			one.supply.out.Store(true)
			one.poll(number, NoSlot)
		},
		"its terms fail": func(one *replica, number string) {
			if _, err := one.Poll(one.t.Context(), number, caller, func(Task) (Terms, error) { return Terms{}, noTerms }); !errors.Is(err, noTerms) {
				one.t.Errorf("the poll: %v", err)
			}
		},
		"the wait is over": func(one *replica, number string) {
			token, err := one.store.Take(one.t.Context(), pool.Request{ID: target, Caller: "another"})
			if err != nil {
				one.t.Fatal(err)
			}
			one.poll(number, NotReady)
			close(one.supply.over)
			time.Sleep(100 * time.Millisecond)
			if err := one.store.Return(token); err != nil {
				one.t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
		},
	} {
		t.Run(name, func(t *testing.T) {
			runReplicas(t, 2, func(_ *testing.T, rs []*replica) {
				one, two := rs[0], rs[1]
				one.addToken(time.Minute)
				number := one.submit()
				release(one, number)
				two.poll(number, nil)
			})
		})
	}
}

// A task that cannot be released during an outage of Redis is free after its lease has expired. The
// log contains the cause.
func TestAnUnreleasedTaskIsFreeAfterItsLease(t *testing.T) {
	runReplicas(t, 2, func(t *testing.T, rs []*replica) {
		one, two := rs[0], rs[1]
		var log testkit.Log
		one.log = log.Logger()
		one.addToken(time.Minute)
		number := one.submit()
		noTerms := errors.New("no terms")
		if _, err := one.Poll(t.Context(), number, caller, func(Task) (Terms, error) {
			one.bubble.SetDown(true)
			return Terms{}, noTerms
		}); !errors.Is(err, noTerms) {
			t.Errorf("the poll: %v", err)
		}
		if log.Count("level=DEBUG", "task not released", "task="+number, redisdb.ErrDown.Error()) != 1 {
			t.Errorf("logged %s", log.String())
		}
		one.bubble.SetDown(false)
		time.Sleep(taskLease + 10*time.Second) // the probes of Redis must also end
		two.poll(number, nil)
	})
}

// If a replica cannot hold a task because it has the maximum number of waiting tasks, another
// replica can hold the task immediately.
func TestATaskThatFindsNoRoomIsFreeAtOnce(t *testing.T) {
	runReplicas(t, 2, func(_ *testing.T, rs []*replica) {
		one, two := rs[0], rs[1]
		one.addToken(time.Minute)
		number := one.submit()
		one.mu.Lock()
		for i := range mostWaiting {
			one.waiting[fmt.Sprint(i)] = &waiter{end: func() {}}
		}
		one.mu.Unlock()
		one.poll(number, NoSlot)
		one.mu.Lock()
		clear(one.waiting)
		one.mu.Unlock()
		two.poll(number, nil)
	})
}

// Another replica takes over a dead replica's task when the lease expires. If Redis' clock was set
// back by more than 10 s, the takeover is immediate, because the age of the lease is unknown.
func TestATakeoverAfterAStepOfTheClock(t *testing.T) {
	for _, c := range []struct{ back, after time.Duration }{
		{0, 2 * time.Second},
		{8 * time.Second, 10 * time.Second},
		{11 * time.Second, 0},
		{time.Hour, 0},
	} {
		t.Run(c.back.String(), func(t *testing.T) {
			runReplicas(t, 2, func(t *testing.T, rs []*replica) {
				one, two, bubble := rs[0], rs[1], rs[0].bubble
				number := one.submit()
				one.crashWait(number)
				died := time.Now()
				bubble.SetTime(died.Add(-c.back))
				for !two.hasWaiter(number) {
					if time.Since(died) > c.after+time.Second {
						t.Fatalf("not taken over %v after a step of %v", time.Since(died), c.back)
					}
					two.poll(number, NotReady)
					time.Sleep(500 * time.Millisecond)
					bubble.SetTime(time.Now().Add(-c.back))
				}
				if took := time.Since(died); took < c.after {
					t.Errorf("taken over after %v, want %v", took, c.after)
				}
				two.addToken(time.Minute)
				two.poll(number, nil)
			})
		})
	}
}

// A guest's task does not fail while its order is in flight. The task fails after its order has
// ended.
func TestATaskLastsAsLongAsItsOrder(t *testing.T) {
	runReplicas(t, 2, func(t *testing.T, rs []*replica) {
		guest := Terms{Take: pool.Request{ID: target, Caller: caller, MaxWaiting: 20}, Guest: &ondemand.Guest{}}
		plain := func(Task) (Terms, error) { return Terms{Take: guest.Take}, nil }
		poll := func(r *replica, number string, want error) {
			t.Helper()
			if got, err := r.Poll(t.Context(), number, caller, plain); CauseOf(err) != CauseOf(want) || want == nil && (err != nil || got.Token.Value == "") {
				t.Fatalf("the poll: %+v, %v; want %v", got, err, want)
			}
		}
		for i, fails := range []bool{false, true} {
			one, two := rs[i], rs[1-i]
			one.solver = func(ctx context.Context, r ondemand.Request) (pool.Token, error) { return one.store.Take(ctx, r.Take) }
			number, err := one.Submit(t.Context(), targetTask, guest)
			if err != nil {
				t.Fatal(err)
			}
			ref := pool.Ref{Identity: target, Order: fmt.Sprint("order of ", number)}
			if placed, err := one.store.Place(t.Context(), pool.Order{Ref: ref, Depth: 1000, TTL: 10 * time.Minute}); err != nil || !placed.Placed {
				t.Fatalf("placing: %+v, %v", placed, err)
			}
			time.Sleep(40 * time.Second) // without polls, the replica gives the task up
			for range 90 {
				poll(two, number, NotReady)
				time.Sleep(time.Second)
			}
			if fails {
				if _, err := one.store.Fail(t.Context(), pool.Failure{Ref: ref, Reason: "unsolvable"}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Second)
				poll(two, number, Unsolvable)
				continue
			}
			if how, err := one.store.Settle(t.Context(), pool.Landing{Ref: ref, Provider: "p", Value: "token-" + ref.Order, Lifetime: 10 * time.Minute}); err != nil || how != pool.Ended {
				t.Fatalf("landing: %v, %v", how, err)
			}
			time.Sleep(time.Second)
			poll(two, number, nil)
		}
	})
}
