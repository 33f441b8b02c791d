package purchase

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
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
