package purchase

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/pool/pooltest"
	"poold/internal/provider"
	"poold/internal/redisdb/redistest"
	"poold/internal/spool"
)

// The table contains an end for each trigger that can occur in a state. Reservations are returned
// only if nothing was bought. An order that may have been bought either stays in Redis or is
// counted.
func TestEachEventHasAnEnd(t *testing.T) {
	can := map[pool.State][]trigger{
		pool.Intent:     {stopped, abandoned},
		pool.Submitting: {badParameters, failed, unavailable, unanswered, abandoned},
		pool.Bought:     {solved, failed, badParameters, uncollected, stopped, abandoned},
		pool.Unknown:    {abandoned},
	}
	count := 0
	for state, all := range can {
		for _, n := range all {
			count++
			e := endOf(state, n)
			paid := state == pool.Bought || state == pool.Unknown || n == unanswered || state == pool.Submitting && n == abandoned
			if e.refund == paid {
				t.Errorf("%c, %s: refund %v", state, n, e.refund)
			}
			if e.script == "" || e.refund && e.script != remove {
				t.Errorf("%c, %s: script %q", state, n, e.script)
			}
			if (e.script == settle) != (n == solved) || (e.script == settle) != (e.outcome == Solved) {
				t.Errorf("%c, %s: %s, reported as %s", state, n, e.script, e.outcome)
			}
			if e.hopeless != (n == badParameters) {
				t.Errorf("%c, %s: hopeless %v", state, n, e.hopeless)
			}
			if (e.outcome == "") != (n == abandoned) {
				t.Errorf("%c, %s: reported as %q", state, n, e.outcome)
			}
		}
	}
	if count != len(ends) {
		t.Errorf("%d of the %d ends can come", count, len(ends))
	}
}

// listener is an observer that stores events.
type listener struct {
	witness
	events *[]Event
}

func (l listener) Ended(e Event) { *l.events = append(*l.events, e) }

// fullIdentity returns an identity with a value in each field.
func fullIdentity() captcha.Identity {
	return captcha.Identity{
		Type: captcha.Turnstile, Sitekey: "1x00000000000000000000AA", Pageurl: "https://example.com/", Invisible: true,
		Enterprise: true, Action: "login", MinScore: 0.7, Data: "cdata", UserAgent: "Mozilla/5.0",
	}
}

// Whether a poll, an adopter or a callback ended an order, the event contains all facts of the
// order except the proxy.
func TestEventsHaveAllFacts(t *testing.T) {
	target := spec()
	target.Identity = fullIdentity()
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
		withCallbackBuyer(t, func(t *testing.T, s *testBuyer) {
			s.buyer.SetProviders([]Entry{{
				Provider: s.provider, Concurrency: 5, Callbacks: callbackSettings("first"), Price: func(captcha.Type) float64 { return 0.0029 },
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
			want.Identity, want.Target, want.Owner, want.Provider, want.Price = fullIdentity(), "login", "qa@example.com", "one", 2_900_000
			want.Order, want.Placed, want.Submitted, want.Solved = e.Order, e.Placed, e.Submitted, e.Solved
			if e != want || e.Order.Identity != target.ID {
				t.Errorf("%s: event\n%+v\nwant\n%+v", name, e, want)
			}
		})
	}
}

// If a guest's order fails, the guest's caller gets the reason that the buyer's result contains.
// The callers of a target wait for the next order.
func TestAGuestsCallerLearnsTheReasonOfAFailure(t *testing.T) {
	task := &provider.Error{Class: provider.Task, Code: "ERROR_CAPTCHA_UNSOLVABLE"}
	parameters := &provider.Error{Class: provider.Parameters, Code: "ERROR_SITEKEY"}
	for name, c := range map[string]struct {
		submit, poll error
		target       bool
		called       bool   // a callback ends the order as failed
		token        string // the token that the poll returns
		want         string // text of the caller's error; "" = the caller continues to wait
		refused      bool
	}{
		"a task that failed":               {poll: task, want: "one: the task brought no token: task fault ERROR_CAPTCHA_UNSOLVABLE"},
		"a target's":                       {poll: task, target: true},
		"a callback":                       {called: true, want: "one: the task brought no token: ERROR_CAPTCHA_UNSOLVABLE"},
		"a fault of the parameters, later": {poll: parameters, want: "one: the task brought no token: the provider rejects the parameters: parameters fault ERROR_SITEKEY", refused: true},
		"a fault of the parameters":        {submit: parameters},
		"a submit that failed":             {submit: task, want: "one: the task brought no token: task fault ERROR_CAPTCHA_UNSOLVABLE"},
		"a provider without room":          {submit: &provider.Error{Class: provider.Capacity, Code: "ERROR_NO_SLOT_AVAILABLE"}},
		"a text that came before":          {token: "known", want: "one: the task brought no token: " + pool.RepeatedText},
		"a text of a target's":             {token: "known", target: true},
	} {
		runBubble(t, name, func(t *testing.T) {
			l := &ledger{}
			fake := newFakeProvider(l, "one")
			stock, err := pooltest.Open(pool.Options{Addresses: "redis://bubble", Dial: redistest.InBubble(t).Dial, Prefix: "told", Log: quiet()})
			if err != nil {
				t.Fatal(err)
			}
			d := NewBuyer(stock, "no letters", witness{l}, quiet())
			d.SetProviders([]Entry{{Provider: fake, Concurrency: 5}})
			fake.poll = func(context.Context, int) (provider.Solution, error) { return provider.Solution{Token: "known"}, nil }
			tasks := 0
			fake.submit = func(context.Context) (string, error) {
				tasks++
				return "t" + string(rune('0'+tasks)), nil
			}
			if r := d.orders.collect(t.Context(), mustPlace(t, d, spec())); r.Err != nil {
				t.Fatal(r.Err)
			}
			// The token landed, but is too old for a caller.
			time.Sleep(spec().Lifetime - spec().Margin)
			ask := pool.Request{ID: spec().ID, MinTTL: spec().Lifetime, Wait: 20 * time.Second, MaxWaiting: 5, EndOnFailure: true}
			told := make(chan error, 1)
			go func() {
				_, err := stock.Take(t.Context(), ask)
				told <- err
			}()
			synctest.Wait()
			fake.poll = func(context.Context, int) (provider.Solution, error) {
				return provider.Solution{Token: c.token}, c.poll
			}
			if c.submit != nil {
				fake.submit = func(context.Context) (string, error) { return "", c.submit }
			}
			what := guest(pool.Caps{})
			if c.target {
				what = spec()
			}
			o := mustPlace(t, d, what)
			ended := make(chan Result, 1)
			go func() { ended <- d.orders.collect(t.Context(), o) }()
			if c.called {
				time.Sleep(2 * time.Second) // before the first poll
				how, err := d.callbacks.deliver(t.Context(), spool.Letter{Order: o.String(), Provider: "one", Task: "t2", Code: task.Code}, time.Now())
				if err != nil || how != CallbackFailed {
					t.Errorf("the callback: %v, %v", how, err)
				}
			}
			result := <-ended
			err = <-told
			_ = stock.Close()
			var failed *pool.FailedError
			switch is := errors.As(err, &failed); {
			case is != (c.want != ""):
				t.Errorf("the caller got %v", err)
			case is && (failed.Reason != c.want || failed.Refused != c.refused || result.Err.Error() != c.want || result.Hopeless != c.refused):
				t.Errorf("the caller got %q, refused %v; the order ended with %q", failed.Reason, failed.Refused, result.Err)
			}
		})
	}
}

// If a service returns the same token for two tasks, the first order lands the token. The second
// order fails because its token is repeated, whether a poll or a callback ends the order.
func TestARepeatedTokenFailsItsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := redistest.InBubble(t)
		l := &ledger{}
		stock, err := pooltest.Open(pool.Options{Addresses: "redis://bubble", Dial: redis.Dial, Prefix: "repeated", Log: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = stock.Close() }()
		fake := newFakeProvider(l, "one")
		fake.poll = func(context.Context, int) (provider.Solution, error) {
			return provider.Solution{Token: "03AFthesame"}, nil
		}
		tasks := 0
		fake.submit = func(context.Context) (string, error) {
			tasks++
			return "t" + string(rune('0'+tasks)), nil
		}
		d := NewBuyer(stock, "no letters", witness{l}, quiet())
		d.SetProviders([]Entry{{Provider: fake, Concurrency: 5}})
		order := func() *Order { return mustPlace(t, d, spec()) }
		if r := d.orders.collect(t.Context(), order()); r.Err != nil {
			t.Fatal(r.Err)
		}
		l.forget()
		r := d.orders.collect(t.Context(), order())
		if r.Outcome != Failed || !strings.Contains(r.Err.Error(), pool.RepeatedText) {
			t.Errorf("the second order: %v", r.Err)
		}
		if all := strings.Join(l.all(), ", "); !strings.Contains(all, "login at one: failed") || strings.Contains(all, "solved") {
			t.Errorf("logged: %s", all)
		}
		got, err := stock.Look(t.Context(), spec().ID, 0, 0)
		if f := got.Figures; err != nil || got.Fresh != 1 || got.Orders != 0 || f.Solved != 1 || f.Failed != 1 || f.Bought != 2 {
			t.Errorf("%+v, %v", got, err)
		}

		called := order()
		ended := make(chan Result, 1)
		go func() { ended <- d.orders.collect(t.Context(), called) }()
		time.Sleep(2 * time.Second) // before the first poll
		record, _, err := stock.Find(t.Context(), called.Ref)
		if err != nil {
			t.Fatal(err)
		}
		how, err := d.callbacks.deliver(t.Context(), spool.Letter{Order: called.String(), Provider: "one", Task: record.Task, Token: "03AFthesame"}, time.Now())
		if err != nil || how != CallbackFailed {
			t.Errorf("the callback: %v, %v", how, err)
		}
		if r := <-ended; r.Outcome != Failed || !strings.Contains(r.Err.Error(), pool.RepeatedText) {
			t.Errorf("the order of the callback: %v", r.Err)
		}
		if places, err := stock.Holders(t.Context(), "one"); err != nil || len(places) != 0 || d.slots()[0] != 0 {
			t.Errorf("left: %v, %v", places, err)
		}
	})
}
