package pool

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
	"poold/internal/testkit"
)

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
