package purchase

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
	"poold/internal/panics"
	"poold/internal/provider"
	"poold/internal/refill/policy/worth"
)

// fakeChooser chooses the provider that is named by the bid's target, or else the first one.
type fakeChooser struct {
	t *testing.T
	*ledger
	asked atomic.Int32
}

func (c *fakeChooser) Choose(bid Bid, offers []Offer) (int, Choice) {
	c.asked.Add(1)
	if len(offers) == 0 {
		c.t.Error("the chooser was asked without offers")
	}
	if strings.HasPrefix(bid.For, "panics") {
		panic("a fault of the chooser")
	}
	i := slices.IndexFunc(offers, func(o Offer) bool { return strings.HasPrefix(bid.For, o.Provider) })
	return max(0, i), Best
}

func (c *fakeChooser) Placed(t captcha.Type, callers bool) { c.add("placed %v %v", t, callers) }

// testChoice is a scheduler with a chooser and two providers with one slot each.
type testChoice struct {
	*scheduler
	chooser  *fakeChooser
	one, two *probedProvider
}

// probedProvider is a provider that may allow a probe while it is down.
type probedProvider struct {
	*fakeProvider
	probe atomic.Bool
}

func (p *probedProvider) Ready(at time.Time) (bool, time.Duration) {
	ready, wait := p.fakeProvider.Ready(at)
	return ready || p.probe.Load(), wait
}

func newTestChoice(t *testing.T) *testChoice {
	l := &ledger{}
	c := &testChoice{
		scheduler: newTestScheduler(1), chooser: &fakeChooser{t: t, ledger: l},
		one: &probedProvider{fakeProvider: newFakeProvider(l, "one")}, two: &probedProvider{fakeProvider: newFakeProvider(l, "two")},
	}
	c.scheduler.chooser = c.chooser
	c.accounts.replace([]Entry{{Provider: c.one, Concurrency: 1}, {Provider: c.two, Concurrency: 1}})
	return c
}

// ask requests a slot for a target. It records the slot's provider, or the error, in the ledger. The
// slot is freed if keep is false.
func (c *testChoice) ask(bid Bid, keep bool) {
	c.request(bid, func(slot *Slot, err error) {
		if err != nil {
			c.chooser.add("%s: %v", bid.For, err)
			return
		}
		c.chooser.add("%s: %s by %s", bid.For, slot.account.Name(), slot.choice)
		if !keep {
			slot.Free()
		}
	})
}

func best(target string) Bid { return Bid{Policy: worth.Best, For: target} }

// mustHold takes a slot for a target.
func (c *testChoice) mustHold(t *testing.T, bid Bid) *Slot {
	t.Helper()
	slot, err := c.admit(t.Context(), bid)
	if err != nil {
		t.Fatal(err)
	}
	return slot
}

// A request waits while its provider is full. A later request for another provider is served at once.
func TestARequestForAnotherProviderDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestChoice(t)
		held := c.mustHold(t, best("one"))
		c.ask(best("one, waits"), false)
		synctest.Wait()
		c.ask(best("two, later"), false)
		synctest.Wait()
		c.ask(Bid{Policy: worth.Cheapest, For: "two, cheapest"}, false)
		synctest.Wait()
		c.chooser.want(t, "two, later: two by best", "two, cheapest: two by best")
		c.chooser.forget()
		held.Free()
		synctest.Wait()
		c.chooser.want(t, "one, waits: one by best")
		c.mustBeIdle(t)
	})
}

// A request with the policy ordered waits for the first provider that is up, although the second one
// is free. A request with another policy passes it.
func TestARequestThatIsOrderedIsPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestChoice(t)
		held := c.mustHold(t, best("one"))
		c.ask(Bid{For: "ordered"}, false)
		c.ask(best("two"), false)
		time.Sleep(time.Minute)
		c.chooser.want(t, "two: two by best")
		c.chooser.forget()
		held.Free()
		synctest.Wait()
		c.chooser.want(t, "ordered: one by ordered")
		c.mustBeIdle(t)
	})
}

// An order probes a provider that is down as soon as a probe is allowed, even if the chooser prefers another provider.
func TestAProviderThatIsDownIsProbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestChoice(t)
		c.two.setState(provider.StateDown, time.Minute)
		c.ask(best("one, no probe yet"), false)
		synctest.Wait()
		c.two.probe.Store(true)
		c.ask(best("one, the probe"), false)
		synctest.Wait()
		c.chooser.want(t, "one, no probe yet: one by best", "one, the probe: two by probe")
		c.mustBeIdle(t)
	})
}

// While all providers are down, a request waits and the chooser is not asked. The request is served
// soon after a provider is up again.
func TestARequestWaitsWhileAllProvidersAreDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestChoice(t)
		c.one.setState(provider.StateDown, time.Minute)
		c.two.setState(provider.StateDown, time.Minute)
		c.ask(best("one"), false)
		time.Sleep(10 * time.Minute)
		c.chooser.want(t)
		if n := c.chooser.asked.Load(); n != 0 {
			t.Errorf("the chooser was asked %d times", n)
		}
		c.two.setState(provider.StateOK, 0)
		time.Sleep(recheckEvery)
		synctest.Wait()
		c.chooser.want(t, "one: two by best")
		c.mustBeIdle(t)
	})
}

// A panic of the chooser gives an error to the request for which the chooser was called. An older
// request, which waits for another provider, keeps waiting.
func TestAPanicOfTheChooserEndsOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestChoice(t)
		held := c.mustHold(t, best("one"))
		c.ask(best("one, waits"), false)
		c.ask(best("panics"), false)
		synctest.Wait()
		c.ask(best("two"), false)
		synctest.Wait()
		c.chooser.want(t, fmt.Sprint("panics: ", panics.ErrFault), "two: two by best")
		c.chooser.forget()
		held.Free()
		synctest.Wait()
		c.chooser.want(t, "one, waits: one by best")
		c.mustBeIdle(t)
	})
}

// The chooser is not asked for the policy ordered, which is also the policy of a bid without a policy.
func TestTheChooserIsNotAskedForOrderedRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestChoice(t)
		c.ask(Bid{For: "two"}, false)
		c.ask(Bid{For: "two, ordered", Policy: worth.Ordered}, false)
		synctest.Wait()
		c.chooser.want(t, "two: one by ordered", "two, ordered: one by ordered")
		if n := c.chooser.asked.Load(); n != 0 {
			t.Errorf("the chooser was asked %d times", n)
		}
	})
}

// With one provider, the policy does not change which request gets the next slot.
func TestWithOneProviderThePolicyDoesNotChangeTheSequence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		serve := func(chooser Chooser, policies ...worth.Policy) []string {
			q := newTestScheduler(1)
			q.chooser = chooser
			held, err := q.admit(t.Context(), Bid{})
			if err != nil {
				t.Fatal(err)
			}
			served := &ledger{}
			r := rand.New(rand.NewPCG(1, 1))
			for i := range 200 { // more than lookAhead
				bid := Bid{
					Callers: r.IntN(4) == 0, Worth: float64(r.IntN(5)), Since: time.UnixMilli(r.Int64N(100)),
					Policy: policies[i%len(policies)],
				}
				q.request(bid, func(slot *Slot, err error) {
					if err != nil {
						t.Error(err)
						return
					}
					served.add("%d", i)
					slot.Free()
				})
			}
			held.Free()
			synctest.Wait()
			q.mustBeIdle(t)
			return served.all()
		}
		want := serve(nil, worth.Ordered)
		if len(want) != 200 {
			t.Fatalf("%d requests were served", len(want))
		}
		for _, policies := range [][]worth.Policy{{worth.Best}, {worth.Cheapest}, {worth.Ordered, worth.Best, worth.Cheapest, ""}} {
			if got := serve(&fakeChooser{t: t, ledger: &ledger{}}, policies...); !slices.Equal(got, want) {
				t.Errorf("with the policies %q, the sequence is %q, want %q", policies, got, want)
			}
		}
	})
}

// A request behind more than lookAhead better bids for a full provider is served, even if better bids
// keep arriving. The scheduler reaches it because every fourth slot goes to the oldest request.
func TestARequestBeyondTheLookAheadIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestChoice(t)
		held := c.mustHold(t, best("one"))
		slots := make(chan *Slot, 1)
		began, asked := time.Now(), 0
		better := func() { // each bid is better than the earlier ones
			asked++
			bid := Bid{Policy: worth.Best, For: "one", Worth: float64(1 + asked), Since: began.Add(time.Duration(asked))}
			c.request(bid, func(slot *Slot, _ error) { slots <- slot })
		}
		for range 2 * lookAhead {
			better()
		}
		poor := Bid{Policy: worth.Best, For: "two", Since: began.Add(time.Duration(asked))}
		c.ask(poor, false)
		granted := 0
		for ; len(c.chooser.all()) == 0 && granted < 1000; granted++ {
			held.Free()
			held = <-slots
			better()
			synctest.Wait()
		}
		// Before the request is one of the lookAhead oldest, lookAhead older ones get a slot.
		if most := fairTurn * (lookAhead + 2); granted > most {
			t.Errorf("the request was served after %d slots, want at most %d", granted, most)
		}
		for range 2 * lookAhead {
			held.Free()
			held = <-slots
		}
		held.Free()
		synctest.Wait()
		c.mustBeIdle(t)
	})
}

// The chooser counts an order with the policy best when it was placed. It does not count refused orders
// or orders with another policy.
func TestTheChooserCountsPlacedOrders(t *testing.T) {
	full, budget := spec(), spec()
	full.Depth = 0
	budget.PerHour = 1
	for name, c := range map[string]struct {
		bid   Bid
		spec  Spec
		taken int // earlier orders of the target
		err   func(error) bool
		want  []string
	}{
		"best":              {bid: best(""), spec: spec(), want: []string{"placed hcaptcha false"}},
		"best, for callers": {bid: Bid{Policy: worth.Best, Callers: true}, spec: spec(), want: []string{"placed hcaptcha true"}},
		"cheapest":          {bid: Bid{Policy: worth.Cheapest}, spec: spec()},
		"ordered":           {bid: Bid{Policy: worth.Ordered}, spec: spec()},
		"no policy":         {spec: spec()},
		"depth":             {bid: best(""), spec: full, err: func(err error) bool { return errors.Is(err, ErrDepth) }},
		"budget": {bid: best(""), spec: budget, taken: 1, err: func(err error) bool {
			var used *BudgetError
			return errors.As(err, &used)
		}},
	} {
		runBubble(t, name, func(t *testing.T) {
			s := newTestBuyer(t, 2)
			placed := &ledger{}
			s.buyer.SetChooser(&fakeChooser{t: t, ledger: placed})
			for range c.taken {
				s.orderFor(t, c.spec)
			}
			c.bid.Type = captcha.HCaptcha
			slot, err := s.buyer.Admit(t.Context(), c.bid)
			if err != nil {
				t.Fatal(err)
			}
			_, err = s.buyer.placer.place(t.Context(), slot, c.spec)
			if refused := c.err != nil; refused && !c.err(err) || !refused && err != nil {
				t.Errorf("place = %v", err)
			}
			placed.want(t, c.want...)
		})
	}
}
