package pool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
	"poold/internal/redisdb"
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

func (s *replica) size() int { return len(s.all()) }

// A queue is dropped after a minute without use, but not while a caller waits in it. The next caller
// gets a new queue.
func TestIdleQueuesAreForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T, s, _ *replica, id captcha.ID) {
		stock(t, s, id, 3, 0, time.Hour)
		take(t, s, Request{ID: id}, 1)
		waiting := identity("somebody waits")
		patient := parkOne(t, s, Request{ID: waiting, Wait: 10 * time.Minute, MaxWaiting: 5})
		time.Sleep(queueIdle - time.Second)
		if n := s.size(); n != 2 {
			t.Errorf("%d queues after less than a minute", n)
		}
		time.Sleep(queueIdle + 2*time.Second)
		if n := s.size(); n != 1 {
			t.Errorf("%d queues when one was idle for a minute, and somebody waits in the other", n)
		}
		take(t, s, Request{ID: id}, 1)
		if n := s.size(); n != 2 {
			t.Errorf("%d queues after another take", n)
		}
		stock(t, s, waiting, 1, 0, time.Hour)
		if got := <-patient; got.err != nil {
			t.Errorf("who waited got %v", got.err)
		}
		time.Sleep(2*queueIdle + time.Second)
		if n := s.size(); n != 0 {
			t.Errorf("%d queues are kept", n)
		}
		if got := look(t, s, id); got.Fresh != 1 || got.Figures.Hits != 2 {
			t.Errorf("%+v", got)
		}
	})
}

// Callers that arrive while their queue is being dropped are each served once. Two calls are never in
// flight at the same time, because the older call would be refused.
func TestTakesWhileQueuesAreForgotten(t *testing.T) {
	const callers, each = 8, 100
	s, id := open(t, Options{Addresses: "redis://" + redistest.Server(t)}), identity("forgotten")
	stock(t, s, id, callers*each, 0, time.Minute)
	over, forgotten := make(chan struct{}), 0
	var forgetting, all sync.WaitGroup
	forgetting.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
				s.forget(time.Now(), 0)
				if s.size() == 0 {
					forgotten++
				}
			}
		}
	})
	var mu sync.Mutex
	taken := map[string]bool{}
	for range callers {
		all.Go(func() {
			for range each {
				token, err := s.Take(t.Context(), Request{ID: id})
				mu.Lock()
				if err != nil || taken[token.Value] {
					t.Errorf("took %q, %v", token.Value, err)
				}
				taken[token.Value] = true
				mu.Unlock()
			}
		})
	}
	all.Wait()
	close(over)
	forgetting.Wait()
	if len(taken) != callers*each || forgotten == 0 {
		t.Errorf("%d taken while queues were forgotten %d times", len(taken), forgotten)
	}
}

// hanging is a connection to a Redis that hangs in look.lua.
type hanging struct{ net.Conn }

func (d hanging) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte(loadScripts(0).Get("look").Hash())) {
		return len(b), nil
	}
	return d.Conn.Write(b)
}

// Callers without a token share a look for RetryAfter, and Redis hangs during this look. A caller
// that hangs up leaves immediately. The other callers still get the result.
func TestHangingLooksBlockNoCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := redistest.InBubble(t)
		s := open(t, Options{Addresses: "redis://bubble", Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := redis.Dial(ctx, network, addr)
			return hanging{conn}, err
		}})
		id, began := identity("hangs"), time.Now()
		ctx, hangUp := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, hangUp)
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() {
				if i%2 == 0 {
					_, err := s.Take(ctx, Request{ID: id})
					if held := time.Since(began); !errors.Is(err, context.Canceled) || held != 100*time.Millisecond {
						t.Errorf("who hung up got %v after %v", err, held)
					}
					return
				}
				_, err := s.Take(t.Context(), Request{ID: id})
				if held := time.Since(began); !errors.Is(err, redisdb.ErrDown) || held != time.Second {
					t.Errorf("who stayed got %v after %v", err, held)
				}
			})
		}
		all.Wait()
	})
}

// RetryAfter estimates when an order lands for a caller that comes after all pending callers. It is
// the median lead time minus the age of that order.
func TestRetryAfterIsTheNextFreeLanding(t *testing.T) {
	inBubble(t, func(t *testing.T, s, _ *replica, id captcha.ID) {
		const median = 4 * time.Second
		for i, lead := range []time.Duration{6 * time.Second, 2 * time.Second, median} {
			ref := Ref{id, fmt.Sprint("lead", i)}
			placeOrder(t, s, Order{Ref: ref, Depth: 9, TTL: time.Minute})
			expect(t, Ended)(s.Settle(t.Context(), Landing{Ref: ref, Value: ref.Order, Lifetime: time.Minute, Lead: lead}))
		}
		take(t, s, Request{ID: id}, 3)
		retry := func(waiting int, want time.Duration) {
			t.Helper()
			q := s.queue(id)
			q.mu.Lock()
			q.look = nil // otherwise the take shares the last look
			q.mu.Unlock()
			_, err := s.Take(t.Context(), Request{ID: id})
			var empty *EmptyError
			if !errors.As(err, &empty) {
				t.Fatal(err)
			}
			if (empty.RetryAfter-want).Abs() > 5*time.Millisecond || empty.Orders != 2 || empty.Waiting != waiting || empty.Full {
				t.Errorf("%v; got %+v, want %v beside %d callers", err, empty.RetryAfter, want, waiting)
			}
		}
		first := time.Now()
		place(t, s, id, "first")
		time.Sleep(time.Second)
		second := time.Now()
		place(t, s, id, "second")
		time.Sleep(time.Second)
		retry(0, median-time.Since(first))
		waits := Request{ID: id, Wait: 20 * time.Second, MaxWaiting: 9}
		one := parkOne(t, s, waits)
		retry(1, median-time.Since(second))
		two := parkOne(t, s, waits)
		retry(2, median)
		time.Sleep(10 * time.Second)
		retry(2, median)
		s.EndWaits()
		<-one
		<-two
		testkit.Within(t, 10*time.Second, "no ticket", func() bool { return look(t, s, id).Waiting == 0 })
		retry(0, time.Millisecond) // the order is overdue
	})
}

// If the rate delayed a wait and the stock then becomes empty, the wait ends as an ordinary miss.
// The error gives the last reason for waiting.
func TestRateNoLongerExplainsAWaitWithoutTokens(t *testing.T) {
	inBubble(t, func(t *testing.T, s, _ *replica, id captcha.ID) {
		request := Request{ID: id, Rate: 1, RatePer: time.Minute, MaxWaiting: 9}
		stock(t, s, id, 2, 0, time.Minute)
		take(t, s, request, 1)
		request.Wait = 10 * time.Second
		caller := parkOne(t, s, request)
		if _, err := s.Flush(t.Context(), id, 0); err != nil {
			t.Fatal(err)
		}
		if got := <-caller; !isEmpty(got.err) {
			t.Errorf("%+v", got)
		}
		synctest.Wait()
		if f := look(t, s, id).Figures; f.Requests != 2 || f.Hits != 1 || f.Misses != 1 {
			t.Errorf("%+v", f)
		}
	})
}

// If a caller's wait ends or the caller hangs up, its ticket is removed immediately. The removal
// does not wait for the next poll.
func TestTicketsLeaveWithTheirCaller(t *testing.T) {
	inBubble(t, func(t *testing.T, s, _ *replica, id captcha.ID) {
		over := make(chan struct{})
		ctx, hangUp := context.WithCancel(t.Context())
		parkOne(t, s, Request{ID: id, Wait: time.Minute, MaxWaiting: 9}) // this caller keeps the queue polling
		ended := parkOne(t, s, Request{ID: id, Wait: time.Minute, MaxWaiting: 9, Over: over})
		gone := make(chan error)
		go func() {
			_, err := s.Take(ctx, Request{ID: id, Wait: time.Minute, MaxWaiting: 9})
			gone <- err
		}()
		synctest.Wait()
		now := time.Now()
		close(over)
		<-ended
		hangUp()
		if err := <-gone; err == nil {
			t.Error("a caller that hung up got a token")
		}
		synctest.Wait()
		if got := look(t, s, id); got.Waiting != 1 || !time.Now().Equal(now) {
			t.Errorf("%d tickets after %v", got.Waiting, time.Since(now))
		}
		s.EndWaits()
	})
}

// When the store stops, pending callers of a guest count as refused, and pending callers of a target
// are not counted.
func TestEndWaitsCountsCallersOfGuestsAsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, s, _ *replica, id captcha.ID) {
		guest := identity("guest")
		callers := []<-chan answer{parkOne(t, s, asking(guest)), parkOne(t, s, Request{ID: id, Wait: time.Minute, MaxWaiting: 9})}
		s.EndWaits()
		for _, caller := range callers {
			if got := <-caller; !errors.Is(got.err, ErrClosed) {
				t.Errorf("%+v", got)
			}
		}
		synctest.Wait()
		for id, want := range map[captcha.ID]Figures{guest: {Requests: 1, Refused: 1}, id: {Requests: 1}} {
			if got := look(t, s, id); got.Waiting != 0 || got.Figures != want {
				t.Errorf("%d tickets, %+v", got.Waiting, got.Figures)
			}
		}
	})
}

// A caller leaves before the first call of the script includes it. Its request counts, with its outcome.
func TestCallersThatLeaveAtOnceCount(t *testing.T) {
	inBubble(t, func(t *testing.T, s, _ *replica, id captcha.ID) {
		q, mine := s.queue(id), make(listener, 1)
		q.serving = true // no call is made yet
		w, err := q.join(q.newWaiter(Request{ID: id, Wait: time.Minute, MaxWaiting: 9, EndOnFailure: true}, mine))
		must(t, err)
		_ = q.abandon(w, mine, outcomeRefused)
		q.mu.Lock()
		q.serving = false
		must(t, q.serveLocked())
		q.mu.Unlock()
		synctest.Wait()
		if got := look(t, s, id); got.Figures.Requests != 1 || got.Figures.Refused != 1 || got.Waiting != 0 {
			t.Errorf("%+v", got)
		}
	})
}

// The waits end while a call is in flight, which gives the caller its ticket. Its request counts as refused.
func TestWaitsEndDuringACall(t *testing.T) {
	inBubble(t, func(t *testing.T, s, _ *replica, id captcha.ID) {
		q, mine := s.queue(id), make(listener, 1)
		w := q.newWaiter(Request{ID: id, Wait: time.Minute, MaxWaiting: 9, EndOnFailure: true}, mine)
		s.draining.Store(true)
		q.deliver(&takeCall{waiters: []*waiter{w}}, []string{"1700000000000", "0", "parked", "1700000000000000"})
		if got := <-mine; !errors.Is(got.err, ErrClosed) || len(q.departures) != 1 || q.departures[0].outcome != outcomeRefused {
			t.Errorf("%v, %+v", got.err, q.departures)
		}
	})
}
