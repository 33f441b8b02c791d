package pool

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"poold/internal/testkit"
)

func testRateIsAWindow(t *testing.T, o Options) {
	s, id := open(t, o), identity("e")
	stock(t, s, id, 10, 0, time.Minute)
	// The window is so long that it does not end during the test, even on a slow machine. The test
	// does not wait for its end, but moves the times of the hand-outs.
	request := Request{ID: id, Rate: 2, RatePer: time.Minute}
	move := func(by time.Duration) {
		t.Helper()
		times, err := s.db.Slow.LRange(t.Context(), s.keys(id).rate, 0, -1).Result()
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range times {
			ms, _ := strconv.ParseInt(at, 10, 64)
			// The new time is pushed before the old time is removed, so that the rate never has room
			// in between.
			if err := errors.Join(s.db.Slow.RPush(t.Context(), s.keys(id).rate, ms-by.Milliseconds()).Err(),
				s.db.Slow.LPop(t.Context(), s.keys(id).rate).Err()); err != nil {
				t.Fatal(err)
			}
		}
	}
	refused := func(least, most time.Duration) {
		t.Helper()
		_, err := s.Take(t.Context(), request)
		var limited *RateError
		if !errors.As(err, &limited) || limited.RetryAfter < least || limited.RetryAfter > most {
			t.Fatalf("beyond the rate: %v, %+v", err, limited)
		}
	}
	take(t, s, request, 1)
	move(20 * time.Second)
	take(t, s, request, 1)
	refused(30*time.Second, 40*time.Second)
	waiting := request
	waiting.Wait, waiting.MaxWaiting = 20*time.Second, 10
	waiter := parkOne(t, s, waiting)
	move(41 * time.Second) // only the first hand-out leaves the window
	if got := <-waiter; got.err != nil || got.token.Source != FromWait {
		t.Fatalf("waiting for the window: %+v", got)
	}
	// A hand-out to a pending caller also counts.
	refused(10*time.Second, 19*time.Second)
	move(20 * time.Second)
	take(t, s, request, 1)
	refused(30*time.Second, 40*time.Second)
	if got := look(t, s, id); got.Fresh != 6 {
		t.Errorf("%d left", got.Fresh)
	}
}

// Callers without a wait use up the rate continuously. A caller with a ticket is still served at
// its next poll.
func testARateDoesNotStarveTickets(t *testing.T, o Options) {
	one, two, id := open(t, o), open(t, o), identity("fair rate")
	stock(t, one, id, 200, 0, time.Minute)
	request := Request{ID: id, Rate: 5, RatePer: time.Second}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var greedy sync.WaitGroup
	greedy.Go(func() {
		for ctx.Err() == nil {
			_, _ = two.Take(ctx, request)
			time.Sleep(2 * time.Millisecond)
		}
	})
	time.Sleep(300 * time.Millisecond) // until the rate is used up
	patient := request
	patient.Wait, patient.MaxWaiting = 10*time.Second, 10
	began := time.Now()
	if _, err := one.Take(t.Context(), patient); err != nil {
		t.Errorf("the caller with a ticket: %v", err)
	}
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("the caller with a ticket waited for %v", took)
	}
	stop()
	greedy.Wait()
}

// If a token is in stock and only the rate prevents the hand-out, the caller gets a RateError, also
// after a wait. A caller that finds an empty stock gets an EmptyError.
func testRateErrorsDifferFromEmptyErrors(t *testing.T, o Options) {
	s, id := open(t, o), identity("apart")
	stock(t, s, id, 2, 0, time.Minute)
	request := Request{ID: id, Rate: 1, RatePer: time.Minute}
	if _, err := s.Take(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	patient := request
	patient.Wait, patient.MaxWaiting = 100*time.Millisecond, 5
	for _, r := range []Request{request, patient} {
		_, err := s.Take(t.Context(), r)
		var limited *RateError
		if !errors.As(err, &limited) || limited.RetryAfter < 50*time.Second {
			t.Errorf("wait %v, with a token in stock: %v", r.Wait, err)
		}
	}
	testkit.Within(t, 20*time.Second, "no ticket", func() bool { return look(t, s, id).Waiting == 0 })
	if _, err := s.Take(t.Context(), Request{ID: id}); err != nil { // without the rate
		t.Fatal(err)
	}
	for _, r := range []Request{request, patient} {
		if _, err := s.Take(t.Context(), r); !isEmpty(err) {
			t.Errorf("wait %v, without a token: %v", r.Wait, err)
		}
	}
	testkit.Within(t, 20*time.Second, "the figures", func() bool {
		f := look(t, s, id).Figures
		return f.Hits == 2 && f.Misses == 2
	})
}
