package purchase

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"poold/internal/provider"
	"poold/internal/redisdb"
)

// This file tests the life of an order from the submit to the end, in the order of the steps in
// doc.go. Other files test the other parts:
//
//	buyer_test.go, scheduler_test.go       who gets a slot
//	place_test.go, budget_test.go,
//	guests_test.go                         permits, reservations and the placing
//	callback_test.go, callback_*_test.go   callbacks
//	replay_test.go, replay_*_test.go       callbacks while Redis is away
//	end_test.go                            all ends in one table, events and messages
//	lease_test.go, deadline_test.go,
//	adopt_test.go, orphan_test.go,
//	elsewhere_test.go                      several replicas
//	account_test.go, standing_test.go      accounts, and the faults that replicas share
//	stop_test.go, panic_test.go            stops and panics

// An order runs through its steps and polls at the times that the provider sets. The age of the
// token is counted from the last poll that found the task unsolved.
func TestTheLifeOfAnOrder(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		s.provider.submit = func(context.Context) (string, error) {
			time.Sleep(time.Second)
			return "t1", nil
		}
		solves := notReady(3)
		var asked []time.Time
		s.provider.poll = func(ctx context.Context, n int) (provider.Solution, error) {
			asked = append(asked, time.Now())
			time.Sleep(200 * time.Millisecond)
			return solves(ctx, n)
		}
		o := s.order(t)
		if r := s.buyer.orders.collect(t.Context(), o); r.Err != nil {
			t.Fatal(r.Err)
		}
		s.want(t, "mark", "submit", "claim t1", "store t1", "poll t1", "poll t1", "poll t1", "settle", "release", "login at one: solved")
		l := s.stock.landed()[0]
		// This is the sum of 1 s for the submit, 15 s for the first wait, two intervals and three
		// polls.
		if !near(l.Lead, 26600*time.Millisecond, time.Second) {
			t.Errorf("lead %v, want about 26.6s", l.Lead)
		}
		// The task may have been solved right after the second poll was sent.
		if want := asked[1].Sub(o.placed); l.SincePlaced != want {
			t.Errorf("born %v after the placing, want %v, when the second poll began", l.SincePlaced, want)
		}
		if !near(asked[2].Sub(asked[1]), 5200*time.Millisecond, 500*time.Millisecond) {
			t.Errorf("%v between polls, want 5s with 10%% jitter after the answer", asked[2].Sub(asked[1]))
		}
		if l.Value != "03AFexample" || l.UserAgent != "UA" || l.Provider != "one" || l.Ref != o.Ref || l.Task != "t1" || l.Identity != spec().ID || l.Lifetime != 120*time.Second {
			t.Errorf("landing %+v", l)
		}
		if orders, places := s.stock.counts(); orders != 0 || places != 0 || s.buyer.slots()[0] != 0 {
			t.Errorf("left: %d orders, %d permits, %d slots", orders, places, s.buyer.slots()[0])
		}
	})
}

// If the first poll finds the token, the task may have been solved right after the submit. The
// token's age is therefore counted from just before the submit.
func TestAgeCountsFromTheSubmit(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		s.provider.submit = func(context.Context) (string, error) {
			time.Sleep(2 * time.Second)
			return "t1", nil
		}
		if r := s.buyer.orders.collect(t.Context(), s.order(t)); r.Err != nil {
			t.Fatal(r.Err)
		}
		if l := s.stock.landed()[0]; l.SincePlaced != 0 || l.Lead != 17*time.Second {
			t.Errorf("born %v after the placing, lead %v, want 0s and 17s", l.SincePlaced, l.Lead)
		}
	})
}

// A token that the service took from its own stock has the age that the service states. It may be
// older than the order.
func TestATokenFromStockIsAsOldAsTheServiceSays(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		s.provider.poll = func(context.Context, int) (provider.Solution, error) {
			return provider.Solution{Token: "03AFexample", Dated: true, SinceSubmit: -50 * time.Second}, nil
		}
		o := s.order(t)
		if r := s.buyer.orders.collect(t.Context(), o); r.Err != nil {
			t.Fatal(r.Err)
		}
		if l := s.stock.landed()[0]; l.SincePlaced != o.submitted.Sub(o.placed)-50*time.Second || l.Lead <= 0 {
			t.Errorf("%+v", l)
		}
	})
}

// If the provider asks for a delay, the poll waits, and the task is not lost.
func TestAPollWaitsAsLongAsTheProviderAsks(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		var at []time.Duration
		began := time.Now()
		s.provider.poll = func(_ context.Context, n int) (provider.Solution, error) {
			at = append(at, time.Since(began))
			if n == 1 {
				return provider.Solution{}, &provider.Error{Class: provider.Capacity, Code: "slow down", Delay: 30 * time.Second}
			}
			return provider.Solution{Token: "03AFexample"}, nil
		}
		if r := s.buyer.orders.collect(t.Context(), s.order(t)); r.Err != nil {
			t.Fatal(r.Err)
		}
		if len(at) != 2 || at[1]-at[0] != 30*time.Second {
			t.Errorf("polls at %v, want 30s between them", at)
		}
		// The first poll gave no information about the task, so it does not make the token younger.
		if l := s.stock.landed()[0]; l.SincePlaced != 0 {
			t.Errorf("born %v after the placing, want 0s", l.SincePlaced)
		}
	})
}

// At the provider's time-out, a task is polled a last time and then given up. The order ends with
// the code of a time-out.
func TestATaskIsGivenUpAtItsTimeout(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		var events []Event
		s.buyer.observe = listener{witness{s.ledger}, &events}
		var last time.Duration
		began := time.Now()
		s.provider.poll = func(context.Context, int) (provider.Solution, error) {
			last = time.Since(began)
			return provider.Solution{}, provider.ErrNotReady
		}
		if r := s.buyer.orders.collect(t.Context(), s.order(t)); r.Outcome != Failed {
			t.Errorf("collect = %v, want Failed", r.Err)
		}
		if last != s.provider.limit || time.Since(began) != s.provider.limit {
			t.Errorf("last poll after %v, end after %v, want %v", last, time.Since(began), s.provider.limit)
		}
		if len(events) != 1 || events[0].Code != "TIMEOUT" {
			t.Errorf("events: %+v, want one with the code TIMEOUT", events)
		}
	})
}

// Each failure ends an order as the table in end.go says.
func TestEachFailureEndsAnOrder(t *testing.T) {
	fault := func(c provider.Class) *provider.Error { return &provider.Error{Class: c, Code: "CODE"} }
	unknown := &provider.Error{Class: provider.Capacity, Code: "no answer", Unknown: true}
	cases := map[string]struct {
		submit, poll error
		outcome      Outcome
		hopeless     bool
		removed      string // how the order was removed; "" = the order and its permit stay
	}{
		"capacity at submit":       {submit: fault(provider.Capacity), outcome: Busy, removed: "fail bought=false"},
		"account at submit":        {submit: fault(provider.Account), outcome: Busy, removed: "fail bought=false"},
		"parameters at submit":     {submit: fault(provider.Parameters), outcome: Refused, hopeless: true, removed: "fail bought=false"},
		"unknown code at submit":   {submit: fault(provider.Task), outcome: Failed, removed: "fail bought=false"},
		"submit without an answer": {submit: unknown, outcome: Lost},
		"submit with a stray error": {
			submit: context.DeadlineExceeded, outcome: Lost,
		},
		"task fault":         {poll: fault(provider.Task), outcome: Failed, removed: "fail bought=true"},
		"parameters at poll": {poll: fault(provider.Parameters), outcome: Failed, hopeless: true, removed: "fail bought=true"},
		"never ready":        {poll: provider.ErrNotReady, outcome: Failed, removed: "fail bought=true"},
		"account at poll, for ever": {
			poll: fault(provider.Account), outcome: Lost, removed: "fail bought=true",
		},
	}
	for name, c := range cases {
		runBubble(t, name, func(t *testing.T) {
			s := newTestBuyer(t, 1)
			if c.submit != nil {
				s.provider.submit = func(context.Context) (string, error) { return "", c.submit }
			}
			s.provider.poll = func(context.Context, int) (provider.Solution, error) { return provider.Solution{}, c.poll }
			r := s.buyer.orders.collect(t.Context(), s.order(t))
			if r.Outcome != c.outcome || r.Hopeless != c.hopeless || !errors.Is(r.Err, cmp.Or(c.submit, c.poll)) {
				t.Errorf("collect = %+v, want %v, hopeless %v", r, c.outcome, c.hopeless)
			}
			var got *provider.Error
			if errors.As(c.submit, &got) && !strings.Contains(r.Err.Error(), got.Code) {
				t.Errorf("the error does not name the provider's code: %v", r.Err)
			}
			happened := s.all()
			if !slices.Contains(happened, "login at one: "+string(c.outcome)) {
				t.Errorf("no outcome in %q", happened)
			}
			orders, places := s.stock.counts()
			if stays := orders == 1 && places == 1; stays != (c.removed == "") {
				t.Errorf("left: %d orders, %d permits", orders, places)
			}
			if c.removed != "" && !slices.Contains(happened, c.removed) {
				t.Errorf("want %q in %q", c.removed, happened)
			}
			if s.buyer.slots()[0] != 0 {
				t.Error("the slot was not freed")
			}
		})
	}
}

// If a failed order ends and the answer of Redis is lost, this replica reports the failure, unless
// another replica may have ended the order.
func TestAFailureWithALostReplyIsReported(t *testing.T) {
	for name, c := range map[string]struct {
		callbacks bool
		spoil     func(s *testBuyer, o *Order)
	}{
		"the answer was lost": {true, func(s *testBuyer, _ *Order) {
			lost := false
			s.stock.lostReply = func(step string) error {
				if step == "fail bought=true" && !lost {
					lost = true
					return redisdb.ErrDown
				}
				return nil
			}
		}},
		"redis has forgotten it": {false, func(s *testBuyer, o *Order) { s.stock.forgetOrder(o.Ref) }},
	} {
		runBubble(t, name, func(t *testing.T) {
			s := newTestBuyer(t, 1)
			if c.callbacks {
				s.reload(callbackSettings("first"))
			}
			o := s.order(t)
			s.provider.poll = func(context.Context, int) (provider.Solution, error) {
				c.spoil(s, o)
				return provider.Solution{}, &provider.Error{Class: provider.Task, Code: "CODE"}
			}
			r := s.buyer.orders.collect(t.Context(), o)
			if r.Outcome != Failed || !slices.Contains(s.all(), "login at one: failed") {
				t.Errorf("collect = %v, %q", r.Err, s.all())
			}
			s.wantLeft(t, 0, 0, 0)
		})
	}
}

// If this replica's poll finds a failure after another replica has ended or adopted the order, the
// failure is not counted again.
func TestAFailureAfterAnEndElsewhereIsNotCounted(t *testing.T) {
	for _, gone := range []bool{false, true} {
		runBubble(t, fmt.Sprint(gone), func(t *testing.T) {
			s := newCallbackBuyer(t, "no letters")
			o := s.order(t)
			s.provider.poll = func(ctx context.Context, _ int) (provider.Solution, error) {
				if gone {
					s.stock.landElsewhere(ctx, o.Ref)
				} else {
					s.stock.steal(ctx, o.Ref)
				}
				return provider.Solution{}, &provider.Error{Class: provider.Task, Code: "ERROR_WRONG_CAPTCHA_ID"}
			}
			r := s.buyer.orders.collect(t.Context(), o)
			if r.Outcome != Elsewhere || slices.Contains(s.all(), "login at one: failed") {
				t.Errorf("collect = %v, %q", r.Err, s.all())
			}
		})
	}
}

// A step whose answer is lost is retried and takes effect once.
func TestAStepWithALostReplyTakesEffectOnce(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		lost := map[string]bool{}
		s.stock.lostReply = func(step string) error {
			if !lost[step] {
				lost[step] = true
				return redisdb.ErrDown
			}
			return nil
		}
		slot, _, _ := mustAdmit(t, s.buyer)
		lost["reserve"], lost["place"], lost["mark"] = true, true, true // these steps are rolled back
		o, err := s.buyer.placer.place(t.Context(), slot, spec())
		if err != nil {
			t.Fatal(err)
		}
		if r := s.buyer.orders.collect(t.Context(), o); r.Err != nil {
			t.Fatal(r.Err)
		}
		if n := s.stock.tokens(); n != 1 {
			t.Errorf("%d landings, want 1", n)
		}
		if got := s.all(); got[len(got)-1] != "login at one: solved" {
			t.Errorf("the events are %q", got)
		}
		if orders, places := s.stock.counts(); orders != 0 || places != 0 {
			t.Errorf("left: %d orders, %d permits", orders, places)
		}
	})
}

// A short outage of Redis at any step loses no paid task, and the token ages during the outage.
func TestAShortOutageOfRedisLosesNoTask(t *testing.T) {
	const gap = 40 * time.Second
	for _, step := range []string{"store t1", "settle", "release"} {
		runBubble(t, step, func(t *testing.T) {
			s := newTestBuyer(t, 1)
			s.provider.poll = notReady(2)
			var since time.Time
			tries := 0
			s.stock.fault = func(now string) error {
				if now != step {
					return nil
				}
				if tries++; tries == 1 {
					since = time.Now()
				}
				if time.Since(since) < gap {
					return redisdb.ErrDown
				}
				return nil
			}
			if r := s.buyer.orders.collect(t.Context(), s.order(t)); r.Err != nil {
				t.Fatal(r.Err)
			}
			if got := s.all(); step == "store t1" && !slices.Equal(got[:5], []string{"mark", "submit", "claim t1", "store t1", "poll t1"}) {
				t.Errorf("polling began before the task id was stored: %q", got)
			}
			if tries < 5 || tries > 60 {
				t.Errorf("%d tries in %v", tries, gap)
			}
			l := s.stock.landed()
			if len(l) != 1 {
				t.Fatalf("%d landings", len(l))
			}
			if step == "settle" && l[0].SincePlaced >= gap {
				t.Errorf("born %v after the placing: the landing came late, the token did not", l[0].SincePlaced)
			}
			if step == "settle" && l[0].Lead > gap {
				t.Errorf("lead %v counts the time that Redis was away for", l[0].Lead)
			}
			if orders, places := s.stock.counts(); orders != 0 || places != 0 {
				t.Errorf("left: %d orders, %d permits", orders, places)
			}
		})
	}
}

// If Redis does not recover, the retries end at the order's deadline with a log line.
func TestRetriesEndAtTheDeadline(t *testing.T) {
	for _, step := range []string{"store t1", "settle"} {
		runBubble(t, step, func(t *testing.T) {
			var logged bytes.Buffer
			s := newTestBuyer(t, 1)
			s.buyer.log = slog.New(slog.NewTextHandler(&logged, nil))
			s.stock.fault = func(now string) error {
				if now == step {
					return redisdb.ErrDown
				}
				return nil
			}
			o := s.order(t)
			if r := s.buyer.orders.collect(t.Context(), o); r.Outcome != Lost || !errors.Is(r.Err, redisdb.ErrDown) {
				t.Errorf("collect = %v, want Lost and redisdb.ErrDown", r.Err)
			}
			if left := time.Until(o.deadline); left < 0 || left > 3*time.Second {
				t.Errorf("ended %v before the deadline", left)
			}
			if n := strings.Count(logged.String(), "a paid task is lost"); n != 1 {
				t.Errorf("logged %d times:\n%s", n, logged.String())
			}
			if strings.Contains(logged.String(), "03AFexample") {
				t.Errorf("a token in the log:\n%s", logged.String())
			}
		})
	}
}
