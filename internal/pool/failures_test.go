package pool

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
	"poold/internal/redisdb"
	"poold/internal/redisdb/redistest"
)

// asking returns a request that sets EndOnFailure.
func asking(id captcha.ID) Request {
	return Request{ID: id, Wait: 20 * time.Second, MaxWaiting: 20, EndOnFailure: true}
}

// fail ends an order. One caller gets the reason as its answer.
func fail(t testing.TB, s *replica, id captcha.ID, order, reason string) {
	t.Helper()
	how, err := s.Fail(t.Context(), Failure{Ref: Ref{id, order}, Bought: true, Answer: &FailedError{Reason: reason}})
	if err != nil || how != Ended {
		t.Fatalf("failing %s: %v, %v", order, how, err)
	}
}

func wantFailed(t testing.TB, caller <-chan answer, want FailedError) {
	t.Helper()
	got := <-caller
	var failed *FailedError
	if !errors.As(got.err, &failed) || *failed != want {
		t.Errorf("a caller got %+v, %v; want %+v", got.token, got.err, want)
	}
}

// noOrder checks that Place refuses an order of a guest.
func noOrder(t testing.TB, s *replica, id captcha.ID, order string) {
	t.Helper()
	if got, err := s.Place(t.Context(), Order{Ref: Ref{id, order}, TTL: time.Minute}); err != nil || got.Placed {
		t.Errorf("another order: %+v, %v", got, err)
	}
}

// A failed order ends one wait and removes the caller's ticket in the same step. It ends the
// longest wait at the replica that owned the order. If no caller waits at that replica, it ends the
// longest wait of all replicas.
func testFailedOrdersEndOneWait(t *testing.T, o Options) {
	o.Prefix = "test-failed orders"
	one, two, id := open(t, o), open(t, o), identity("failed orders")
	elsewhere := parkOne(t, two, asking(id))
	last := parkOne(t, two, asking(id))
	first := parkOne(t, one, asking(id))
	second := parkOne(t, one, asking(id))
	for _, order := range []string{"a", "b", "c", "d", "e"} {
		place(t, one, id, order)
	}
	fail(t, one, id, "a", "nobody lacks it") // four orders for four callers
	for i, want := range []struct {
		order  string
		caller <-chan answer
	}{{"b", first}, {"c", second}, {"d", elsewhere}, {"e", last}} {
		fail(t, one, id, want.order, "no "+want.order)
		noOrder(t, two, id, want.order+"+")
		if got := look(t, two, id); got.Waiting != 3-i {
			t.Errorf("%d tickets after %s", got.Waiting, want.order)
		}
		wantFailed(t, want.caller, FailedError{Reason: "no " + want.order})
	}
	place(t, two, id, "f")
	fail(t, two, id, "f", "nobody waits")
	got := look(t, one, id)
	if f := got.Figures; got.Orders != 0 || got.Waiting != 0 || f.Failed != 6 || f.Requests != 4 || f.Misses != 4 {
		t.Errorf("afterwards: %+v", got)
	}
	balanced(t, got)
	k := one.keys(id)
	if n := one.db.Slow.Exists(t.Context(), k.tickets, k.seen, k.failures).Val(); n != 0 {
		t.Errorf("%d keys are left", n)
	}
}

// A wait also ends if a landing fails because its text is repeated, or if a callback ends the order
// at any replica.
func testRepeatedLandingsAndCallbacksEndAWait(t *testing.T, o Options) {
	o.Prefix = "test-every failure"
	one, two, id := open(t, o), open(t, o), identity("every failure")
	settle := func(s *replica, order string, callback bool) EndResult {
		t.Helper()
		place(t, one, id, order)
		how, err := s.Settle(t.Context(), Landing{
			Ref: Ref{id, order}, Value: "the same", Lifetime: time.Minute, Callback: callback, Margin: time.Second, Answer: &FailedError{Reason: order},
		})
		if err != nil {
			t.Fatal(err)
		}
		return how
	}
	if how := settle(one, "a", false); how != Ended {
		t.Fatal(how)
	}
	take(t, one, Request{ID: id}, 1)
	elsewhere := parkOne(t, two, asking(id))
	for _, callback := range []bool{false, true} {
		s := map[bool]*replica{false: one, true: two}[callback]
		caller := parkOne(t, one, asking(id))
		order := "landing" + map[bool]string{true: "Called"}[callback]
		place(t, one, id, order+"Other")
		if how := settle(s, order, callback); how != Repeated {
			t.Errorf("%s: %v", order, how)
		}
		noOrder(t, one, id, order+"More")
		wantFailed(t, caller, FailedError{Reason: order})
		fail(t, one, id, order+"Other", "of the other")
		wantFailed(t, elsewhere, FailedError{Reason: "of the other"})
		elsewhere = parkOne(t, two, asking(id))
	}
	caller := parkOne(t, one, asking(id))
	place(t, one, id, "called")
	place(t, one, id, "calledOther")
	failure := Failure{Ref: Ref{id, "called"}, Bought: true, Callback: true, Message: "CODE", Answer: &FailedError{Reason: "called"}}
	expect(t, Ended)(two.Fail(t.Context(), failure))
	wantFailed(t, caller, FailedError{Reason: "called"})
	place(t, one, id, "unbought")
	failure = Failure{Ref: Ref{id, "unbought"}, Answer: &FailedError{Reason: "unbought"}}
	expect(t, Ended)(one.Fail(t.Context(), failure))
	if got := look(t, one, id); got.Waiting != 1 { // for calledOther
		t.Errorf("%d tickets", got.Waiting)
	}
	fail(t, one, id, "calledOther", "the last")
	wantFailed(t, elsewhere, FailedError{Reason: "the last"})
}

// A fifth of all replies are lost. Each failure still ends one wait, even if Fail or the take is
// retried.
func testFailuresSurviveLostReplies(t *testing.T, o Options) {
	o.Prefix = "test-lost failures"
	s, id := open(t, o), identity("lost failures")
	ends, takes := redistest.NewThief(0.2, s.script("fail").Hash()), thiefOfTakes(s)
	o.Dial = ends.Over(takes.Over(o.Dial))
	robbed := open(t, o)
	const callers = 40
	var waiting []<-chan answer
	for i := range callers {
		request := asking(id)
		request.MaxWaiting = callers
		waiting = append(waiting, parkOne(t, robbed, request))
		place(t, robbed, id, "o"+string(rune('A'+i)))
	}
	for i := range callers {
		failure := Failure{Ref: Ref{id, "o" + string(rune('A'+i))}, Call: "c", Bought: true, Answer: &FailedError{Reason: "lost"}}
		how, err := robbed.Fail(t.Context(), failure)
		for err != nil {
			how, err = robbed.Fail(t.Context(), failure)
		}
		if how != Ended {
			t.Errorf("failing: %v", how)
		}
		if got := look(t, s, id); got.Waiting != callers-1-i {
			t.Errorf("%d tickets after %d failures", got.Waiting, i+1)
		}
	}
	for _, caller := range waiting {
		if got := <-caller; !errors.Is(got.err, redisdb.ErrDown) {
			var failed *FailedError
			if !errors.As(got.err, &failed) {
				t.Errorf("a caller got %+v, %v", got.token, got.err)
			}
		}
	}
	if ends.Stolen() == 0 || takes.Stolen() == 0 {
		t.Fatal("no reply was lost: the test shows nothing")
	}
}

// A caller gets a failure as soon as the order fails, at whichever replica the caller waits. After a
// minute, Redis forgets the answer for a caller that has left.
func TestFailuresAreKeptForAMinute(t *testing.T) {
	inBubble(t, func(t *testing.T, s, other *replica, id captcha.ID) {
		for _, at := range []*replica{s, other} {
			caller := parkOne(t, at, asking(id))
			synctest.Wait()
			place(t, s, id, "a")
			began := time.Now()
			fail(t, s, id, "a", "x")
			wantFailed(t, caller, FailedError{Reason: "x"})
			if took := time.Since(began); took > 10*time.Millisecond {
				t.Errorf("told after %v", took)
			}
		}
		stock(t, s, id, 1, 0, time.Hour)
		known := take(t, s, Request{ID: id}, 1)[0].Value
		caller := parkOne(t, other, asking(id))
		synctest.Wait()
		place(t, s, id, "repeated")
		began := time.Now()
		landing := Landing{Ref: Ref{id, "repeated"}, Value: known, Lifetime: time.Hour, Answer: &FailedError{Reason: "x"}}
		expect(t, Repeated)(s.Settle(t.Context(), landing))
		wantFailed(t, caller, FailedError{Reason: "x"})
		if took := time.Since(began); took > 10*time.Millisecond {
			t.Errorf("told of a landing after %v", took)
		}
		// This ticket belongs to a replica that makes no more calls.
		reply, err := call(t, s, asking(id))
		if err != nil || reply[2] != "parked" {
			t.Fatal(reply, err)
		}
		place(t, s, id, "b")
		fail(t, s, id, "b", "x")
		untold := func(want int64) {
			t.Helper()
			if got := s.db.Slow.ZCard(t.Context(), s.keys(id).failures).Val(); got != want {
				t.Errorf("%d failures are kept, want %d", got, want)
			}
		}
		untold(1)
		if got := ttl(t, s, s.keys(id).failures); got != time.Minute {
			t.Errorf("kept for %v", got)
		}
		time.Sleep(59 * time.Second)
		failOne := func(want int64) {
			t.Helper()
			if reply, err := call(t, s, asking(id)); err != nil || reply[2] != "parked" {
				t.Fatal(reply, err)
			}
			place(t, s, id, "c")
			fail(t, s, id, "c", "x")
			untold(want)
		}
		failOne(2)
		time.Sleep(time.Second)
		failOne(2) // the first failure has expired
		time.Sleep(time.Minute)
		untold(0)
	})
}
