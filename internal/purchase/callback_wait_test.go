package purchase

import (
	"context"
	"fmt"
	"testing"
	"time"

	"poold/internal/provider"
)

// With callbacks, the first poll comes after the fallback time. Without callbacks, the first poll
// comes when the task may be solved.
func TestTheFirstPoll(t *testing.T) {
	for name, c := range map[string]struct {
		callbacks, explicit       bool
		limit, lifetime, shortest time.Duration
		want                      time.Duration // time from the submit to the first poll; the submit takes a second
	}{
		"explicit":                  {true, true, 3 * time.Minute, 120 * time.Second, 0, 33 * time.Second},
		"half the usable life":      {true, false, 3 * time.Minute, 120 * time.Second, 0, 40 * time.Second},
		"half the time-out":         {true, false, time.Minute, 120 * time.Second, 0, 30 * time.Second},
		"at most two minutes":       {true, false, time.Hour, time.Hour, 0, 120 * time.Second},
		"not by the shortest":       {true, false, 3 * time.Minute, 120 * time.Second, 70 * time.Second, 40 * time.Second},
		"off":                       {false, false, 3 * time.Minute, 120 * time.Second, 0, 16 * time.Second},
		"off, by the shortest":      {false, false, 3 * time.Minute, 120 * time.Second, 30 * time.Second, 26 * time.Second},
		"off, a very short one":     {false, false, 3 * time.Minute, 120 * time.Second, 18 * time.Second, 16 * time.Second},
		"off, whatever is explicit": {false, true, 3 * time.Minute, 120 * time.Second, 0, 16 * time.Second},
	} {
		runBubble(t, name, func(t *testing.T) {
			s := newTestBuyer(t, 1)
			terms := callbackSettings("first")
			if c.explicit {
				terms.Fallback = 33 * time.Second
			}
			if !c.callbacks {
				terms.URL = ""
			}
			s.reload(terms)
			s.provider.limit = c.limit
			var asked []time.Duration
			began := time.Now()
			s.provider.submit = func(context.Context) (string, error) {
				time.Sleep(time.Second)
				return "t1", nil
			}
			solved := notReady(3)
			s.provider.poll = func(ctx context.Context, n int) (provider.Solution, error) {
				asked = append(asked, time.Since(began))
				return solved(ctx, n)
			}
			target := spec()
			target.Lifetime, target.Shortest = c.lifetime, c.shortest
			slot, _, _ := mustAdmit(t, s.buyer)
			o, err := s.buyer.placer.place(t.Context(), slot, target)
			if err != nil {
				t.Fatal(err)
			}
			if r := s.buyer.orders.collect(t.Context(), o); r.Err != nil {
				t.Fatal(r.Err)
			}
			if len(asked) != 3 || asked[0] != c.want {
				t.Fatalf("polls after %v, want three, the first after %v", asked, c.want)
			}
			for i := range 2 {
				if gap := asked[i+1] - asked[i]; !near(gap, 5*time.Second, 500*time.Millisecond) {
					t.Errorf("%v between polls, want the interval of 5s", gap)
				}
			}
		})
	}
}

// After three consecutive tasks without callbacks, new tasks are polled without waiting for a
// callback. When a callback arrives, new tasks wait again.
func TestTasksArePolledIfCallbacksDoNotArrive(t *testing.T) {
	withCallbackBuyer(t, func(t *testing.T, s *testBuyer) {
		tasks := 0
		s.provider.submit = func(context.Context) (string, error) {
			tasks++
			return fmt.Sprint("t", tasks), nil
		}
		first := func() time.Duration {
			t.Helper()
			o := s.order(t)
			var asked time.Time
			s.provider.poll = func(context.Context, int) (provider.Solution, error) {
				asked = time.Now()
				return provider.Solution{Token: "03AFexample"}, nil
			}
			if r := s.buyer.orders.collect(t.Context(), o); r.Err != nil {
				t.Fatal(r.Err)
			}
			return asked.Sub(o.placed)
		}
		silent := func() bool { return s.buyer.Providers(boundedCtx(t), time.Now())[0].Silent }
		for range silentAfter {
			if wait := first(); wait != 40*time.Second || silent() && s.buyer.accounts.listed[0].missingCallbacks < silentAfter {
				t.Errorf("the first poll after %v, silent %v", wait, silent())
			}
		}
		if wait := first(); wait != 15*time.Second || !silent() {
			t.Errorf("then the first poll after %v, silent %v", wait, silent())
		}
		o := s.order(t)
		s.mustCall(t, callbackTo(o.address(), "code=03AFcallback"))
		if wait := first(); wait != 40*time.Second || silent() {
			t.Errorf("after a callback the first poll after %v, silent %v", wait, silent())
		}
		// A callback at another replica counts as arrived when that replica's message comes.
		for range silentAfter {
			first()
		}
		if !silent() {
			t.Fatal("callbacks that do not arrive again are not noticed")
		}
		s.subscribe(t)
		other := s.replica("no letters")
		other.reload(callbackSettings("first"))
		o = s.order(t)
		ended := s.startCollecting(t, o)
		other.mustCall(t, callbackTo(o.address(), "code=03AFelsewhere"))
		if r := <-ended; r.Outcome != Solved || silent() {
			t.Errorf("after a callback at another replica: %+v, silent %v", r, silent())
		}
	})
}
