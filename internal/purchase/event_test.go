package purchase

import (
	"context"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/provider"
)

// listener keeps the events of orders.
type listener struct {
	witness
	events *[]Event
}

func (l listener) Ended(e Event) { *l.events = append(*l.events, e) }

// everything is an identity with every field that may be told.
func everything() captcha.Identity {
	return captcha.Identity{
		Type: captcha.Turnstile, Sitekey: "1x00000000000000000000AA", Pageurl: "https://example.com/", Invisible: true,
		Enterprise: true, Action: "login", MinScore: 0.7, Data: "cdata", UserAgent: "Mozilla/5.0",
	}
}

// An event says all of an order, and the same of one that was polled, adopted or called
// back about; but for a proxy, which is a secret.
func TestEventsSayAll(t *testing.T) {
	target := spec()
	target.Identity = everything()
	target.Identity.Proxy, target.Identity.ProxyType = "user:canary@example.com:1", ""
	target.ID = target.Identity.ID()
	fault := &provider.Error{Class: provider.Task, Code: "ERROR_CAPTCHA_UNSOLVABLE"}
	cases := map[string]struct {
		solves bool
		act    func(t *testing.T, s *testBuyer)
		want   Event
	}{
		"polled": {true, func(t *testing.T, s *testBuyer) {
			s.buyer.orders.collect(t.Context(), s.orderFor(t, target))
		}, Event{Outcome: Solved, Task: "t1", Polls: 3}},
		"failed": {false, func(t *testing.T, s *testBuyer) {
			s.buyer.orders.collect(t.Context(), s.orderFor(t, target))
		}, Event{Outcome: Failed, Task: "t1", Polls: 3, Code: "ERROR_CAPTCHA_UNSOLVABLE"}},
		"refused": {false, func(t *testing.T, s *testBuyer) {
			s.provider.submit = func(context.Context) (string, error) {
				return "", &provider.Error{Class: provider.Parameters, Code: "ERROR_WRONG_GOOGLEKEY"}
			}
			s.buyer.orders.collect(t.Context(), s.orderFor(t, target))
		}, Event{Outcome: Refused, Code: "ERROR_WRONG_GOOGLEKEY"}},
		"adopted": {true, func(t *testing.T, s *testBuyer) {
			s.foundFor(t, target, pool.Bought)
			s.buyer.orders.collect(t.Context(), s.adopt(t)[0])
		}, Event{Outcome: Solved, Task: "t7", Polls: 3}},
		"called back about": {true, func(t *testing.T, s *testBuyer) {
			o := s.foundFor(t, target, pool.Bought)
			time.Sleep(30 * time.Second)
			s.mustCall(t, callbackTo(o.address(), "id=t7&code=03AFcallback"))
		}, Event{Outcome: Solved, Task: "t7", Callback: true}},
		"called back with an error": {false, func(t *testing.T, s *testBuyer) {
			o := s.foundFor(t, target, pool.Bought)
			s.mustCall(t, callbackTo(o.address(), "id=t7&code=ERROR_CAPTCHA_UNSOLVABLE"))
		}, Event{Outcome: Failed, Task: "t7", Code: "ERROR_CAPTCHA_UNSOLVABLE", Callback: true}},
	}
	for name, c := range cases {
		synctest.Test(t, func(t *testing.T) {
			s := newCallbackBuyer(t, "no letters")
			s.buyer.SetProviders([]Entry{{
				Provider: s.provider, Concurrency: 5, Callbacks: calling("first"), Price: func(captcha.Type) float64 { return 0.0029 },
			}})
			var events []Event
			s.buyer.observe = listener{witness{s.ledger}, &events}
			s.provider.poll = func(_ context.Context, n int) (provider.Solution, error) {
				switch {
				case n < 3:
					return provider.Solution{}, provider.ErrNotReady
				case c.solves:
					return provider.Solution{Token: "03AFevent"}, nil
				}
				return provider.Solution{}, fault
			}
			before := time.Now()
			c.act(t, s)
			if len(events) != 1 {
				t.Fatalf("%s: %d events: %+v", name, len(events), events)
			}
			e := events[0]
			lasted := e.Solved.Sub(e.Submitted)
			if c.solves && (lasted <= 0 || e.Solved.After(time.Now()) || e.Submitted.Before(before) || e.Placed.After(e.Submitted)) ||
				!c.solves && !e.Solved.IsZero() {
				t.Errorf("%s: placed %v, submitted %v, solved %v", name, e.Placed, e.Submitted, e.Solved)
			}
			want := c.want
			want.Identity, want.Target, want.Owner, want.Provider, want.Price = everything(), "login", "qa@example.com", "one", 2_900_000
			want.Order, want.Placed, want.Submitted, want.Solved = e.Order, e.Placed, e.Submitted, e.Solved
			if e != want || e.Order.Identity != target.ID {
				t.Errorf("%s: event\n%+v\nwant\n%+v", name, e, want)
			}
		})
	}
}

// The record of an order without optional facts, as older versions wrote it, is read.
func TestReadOrder(t *testing.T) {
	r := pool.Record{
		Ref: pool.Ref{Order: "A", Identity: "0123456789abcdef0123456789abcdef"}, State: pool.Bought, Task: "t7", Price: 7,
		Facts: pool.Facts{
			Target: "login", Provider: "one", Account: "abc", Identity: captcha.Identity{Type: captcha.Turnstile, Enterprise: true},
			LifetimeMS: 300000, MarginMS: 40000, Called: true, DelayMS: 10000, TimeoutMS: 180000,
		},
	}
	o, err := readOrder(r)
	if err != nil {
		t.Fatal(err)
	}
	want := Spec{
		Target: "login", ID: r.Identity, Identity: captcha.Identity{Type: captcha.Turnstile, Enterprise: true},
		Margin: 40 * time.Second, Lifetime: 300 * time.Second,
	}
	if !reflect.DeepEqual(o.spec, want) || o.provider != "one" || o.accountID != "abc" || o.timeout != 3*time.Minute || !o.called || o.delay != 10*time.Second || o.price != 7 {
		t.Errorf("read as %+v of %+v", o.spec, o)
	}
	r.State = 'x'
	if _, err := readOrder(r); err == nil {
		t.Error("an order in a state that this version does not know was read")
	}
}
