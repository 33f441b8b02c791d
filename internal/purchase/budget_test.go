package purchase

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/provider"
	"poold/internal/redisdb"
)

// A used-up budget refuses the order, and the error says when the budget has room again. The refused
// order keeps no permit, no slot, and no reservation in another budget.
func TestAUsedUpBudgetRefusesAnOrder(t *testing.T) {
	for name, c := range map[string]struct {
		// The first two caps are the target's caps per hour and per day. The third is the overall cap.
		perHour, perDay, overall int

		age    time.Duration // age of the solves that use up the budget
		want   BudgetError
		text   string
		booked int // solves in the overall budget after the refusal
		asked  string
	}{
		"over all targets": {
			// The budget is tried a second time after budgetRetry.
			0, 0, 1, 23 * time.Hour, BudgetError{Of: pool.Overall, RetryAfter: time.Hour - budgetRetry}, "overall", 1, "book",
		},
		"the target's of the hour": {
			1, 0, 2, 53 * time.Minute, BudgetError{RetryAfter: 7 * time.Minute}, "the target's", 1, "place",
		},
		"the target's of the day": {
			0, 1, 2, 20 * time.Hour, BudgetError{RetryAfter: 4 * time.Hour}, "the target's", 1, "place",
		},
	} {
		runBubble(t, name, func(t *testing.T) {
			s := newTestBuyer(t, 1)
			s.buyer.SetBudget(c.overall)
			target := spec()
			target.PerHour, target.PerDay = c.perHour, c.perDay
			if r := s.buyer.orders.collect(t.Context(), s.orderFor(t, target)); r.Err != nil {
				t.Fatal(r.Err)
			}
			time.Sleep(c.age - 15*time.Second) // the first order took 15 s
			s.forget()
			slot, _, _ := mustAdmit(t, s.buyer)
			_, err := s.buyer.placer.place(t.Context(), slot, target)
			var got *BudgetError
			if !errors.As(err, &got) || *got != c.want || !strings.Contains(err.Error(), c.text) {
				t.Errorf("place = %v (%+v), want %+v", err, got, c.want)
			}
			if want := string(c.want.Of) + " " + target.Target; !slices.Equal(s.budgets, []string{want}) {
				t.Errorf("the observer was told of %q, want %q", s.budgets, want)
			}
			happened := s.all()
			if i := slices.Index(happened, c.asked); i < 0 || !slices.Contains(happened[i:], "release") {
				t.Errorf("what happened: %q", happened)
			}
			s.wantLeft(t, 0, 0, 0)
			if booked := s.stock.booked(); len(booked) != c.booked {
				t.Errorf("%q booked, want %d", booked, c.booked)
			}
		})
	}
}

// A reservation is returned only if it is certain that nothing was bought.
func TestReservationsAreReturnedIfNothingWasBought(t *testing.T) {
	fault := func(c provider.Class) error { return &provider.Error{Class: c, Code: "CODE"} }
	submit := func(err error) func(*testBuyer, *Order) {
		return func(s *testBuyer, _ *Order) {
			s.provider.submit = func(context.Context) (string, error) { return "", err }
		}
	}
	poll := func(err error) func(*testBuyer, *Order) {
		return func(s *testBuyer, _ *Order) {
			s.provider.poll = func(context.Context, int) (provider.Solution, error) { return provider.Solution{}, err }
		}
	}
	steal := func(s *testBuyer, o *Order) { s.stock.steal(s.stock.t.Context(), o.Ref) }
	for name, c := range map[string]struct {
		prepare  func(s *testBuyer, o *Order)
		refunded bool
	}{
		"capacity":           {submit(fault(provider.Capacity)), true},
		"account":            {submit(fault(provider.Account)), true},
		"parameters":         {submit(fault(provider.Parameters)), true},
		"an unknown code":    {submit(fault(provider.Task)), true},
		"a mark that failed": {func(s *testBuyer, _ *Order) { s.stock.failSteps("mark") }, true},
		"solved":             {func(*testBuyer, *Order) {}, false},
		"a task that failed": {poll(fault(provider.Task)), false},
		"parameters, bought": {poll(fault(provider.Parameters)), false},
		"never ready":        {poll(provider.ErrNotReady), false},
		"no answer":          {submit(&provider.Error{Class: provider.Capacity, Code: "EOF", Unknown: true}), false},
		"a stray error":      {submit(context.DeadlineExceeded), false},
		"another's task":     {func(s *testBuyer, _ *Order) { s.stock.claimElsewhere("t1") }, false},
		"redis stays away":   {func(s *testBuyer, _ *Order) { s.stock.failSteps("store") }, false},
		"another replica's":  {steal, false},
		"a panic":            {func(s *testBuyer, _ *Order) { s.provider.submit = func(context.Context) (string, error) { panic("?") } }, false},
		"stolen, and refused": {func(s *testBuyer, o *Order) {
			s.provider.submit = func(context.Context) (string, error) {
				steal(s, o)
				return "", fault(provider.Capacity)
			}
		}, false},
	} {
		runBubble(t, name, func(t *testing.T) {
			s := newTestBuyer(t, 1)
			s.buyer.SetBudget(5)
			o := s.orderFor(t, guest(pool.Caps{PerDay: 5}))
			c.prepare(s, o)
			r := s.buyer.orders.collect(t.Context(), o)
			for _, of := range []pool.Budget{pool.Overall, pool.OfGuests} {
				if refunded := len(s.stock.bookedOf(of)) == 0; refunded != c.refunded {
					t.Errorf("collect = %v, refunded in %s: %v, want %v; %q", r.Err, of, refunded, c.refunded, s.all())
				}
			}
		})
	}
}

func TestReservationsAreReturnedBeforeTheSubmit(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(s *testBuyer, target *Spec)
		want  error
	}{
		"depth":               {func(_ *testBuyer, target *Spec) { target.Depth = 0 }, ErrDepth},
		"no answer to book":   {func(s *testBuyer, _ *Spec) { s.stock.lostReply = loseAnswer("book", redisdb.ErrDown) }, redisdb.ErrDown},
		"nor to the other":    {func(s *testBuyer, _ *Spec) { s.stock.lostReply = loseAnswer("book of solve", redisdb.ErrDown) }, redisdb.ErrDown},
		"no answer to place":  {func(s *testBuyer, _ *Spec) { s.stock.lostReply = loseAnswer("place", redisdb.ErrDown) }, redisdb.ErrDown},
		"redis away at place": {func(s *testBuyer, _ *Spec) { s.stock.failSteps("place") }, redisdb.ErrDown},
	} {
		runBubble(t, name, func(t *testing.T) {
			s := newTestBuyer(t, 1)
			s.buyer.SetBudget(5)
			slot, _, _ := mustAdmit(t, s.buyer)
			target := guest(pool.Caps{PerHour: 5})
			c.spoil(s, &target)
			if _, err := s.buyer.placer.place(t.Context(), slot, target); !errors.Is(err, c.want) {
				t.Errorf("place = %v, want %v", err, c.want)
			}
			if booked := append(s.stock.booked(), s.stock.bookedOf(pool.OfGuests)...); len(booked) != 0 {
				t.Errorf("still booked: %q", booked)
			}
			s.wantLeft(t, 0, 0, 0)
		})
	}
	t.Run("stop", func(t *testing.T) {
		s := newTestBuyer(t, 1)
		s.buyer.SetBudget(5)
		o := s.order(t)
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if r := s.buyer.orders.collect(ctx, o); !errors.Is(r.Err, context.Canceled) {
			t.Errorf("collect = %v, want canceled", r.Err)
		}
		s.want(t, "fail bought=false", "refund", "release")
		if len(s.stock.booked()) != 0 {
			t.Error("still booked")
		}
	})
}

// The journal contains the price, the budgets and the facts of an order, so any replica can end the
// order.
func TestTheJournalHasPriceBudgetsAndFacts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for price, want := range map[float64]int64{0: 0, 0.0029: 2_900_000, 1e-9: 1, 0.00013: 130000, 12.5: 12_500_000_000, math.SmallestNonzeroFloat64: 0, -1: pool.PriceUnknown} {
			s := newTestBuyer(t, 1)
			s.buyer.SetProviders([]Entry{{
				Provider: s.provider, Concurrency: 1, Callbacks: callbackSettings("first"),
				Price: func(kind captcha.Type) float64 {
					if kind != captcha.HCaptcha {
						t.Errorf("asked for the price of %s", kind)
					}
					return price
				},
			}})
			target := spec()
			target.Identity = captcha.Identity{Type: captcha.HCaptcha, Enterprise: true, Sitekey: "k", Pageurl: "https://example.com/", Proxy: "user:pass@example.com:1"}
			target.ID, target.PerHour, target.PerDay = target.Identity.ID(), 11, 222
			slot, _, _ := mustAdmit(t, s.buyer)
			o, err := s.buyer.placer.place(t.Context(), slot, target)
			if err != nil {
				t.Fatal(err)
			}
			placed := s.stock.placed[o.Ref]
			if placed.Price != want || placed.PerHour != 11 || placed.PerDay != 222 {
				t.Errorf("price %g: placed %+v, want %d", price, placed, want)
			}
			const text = `{"target":"login","owner":"qa@example.com","provider":"one","identity":{"type":"hcaptcha","sitekey":"k","pageurl":"https://example.com/","enterprise":true},"lifetime_ms":120000,"margin_ms":40000,"called":true,"callback_delay_ms":10000,"timeout_ms":180000,"choice":"ordered"}`
			facts := text
			if price < 0 { // a negative price is unknown
				facts = strings.TrimSuffix(text, "}") + `,"unpriced":true}`
			}
			if stored := s.stock.facts(o.Ref); stored != facts {
				t.Errorf("facts %s, want %s", stored, facts)
			}
			again, err := readOrder(s.stock.record(o.Ref))
			if err != nil || again.price != want || again.choice != Ordered {
				t.Errorf("price %g: read again as %+v, %v", price, again, err)
			}
		}
	})
}

// After an outage of Redis, no reservation without a purchase is left. The outage begins after a
// refusal, or lasts longer than an order's life.
func TestAnOutageLeavesNoReservation(t *testing.T) {
	for name, c := range map[string]struct {
		away   []string
		refuse bool
	}{
		"refusal": {[]string{"refund"}, true},
		"outage":  {[]string{"place", "fail", "refund", "release", "look"}, false},
	} {
		runBubble(t, name, func(t *testing.T) {
			s := newTestBuyer(t, 1)
			s.buyer.SetBudget(5)
			stop := s.startRunning(t)
			slot, _, _ := mustAdmit(t, s.buyer)
			target := guest(pool.Caps{PerDay: 5})
			if c.refuse {
				target.Depth = 0
			}
			s.stock.failSteps(c.away...)
			if _, err := s.buyer.placer.place(t.Context(), slot, target); err == nil {
				t.Fatal("placed")
			}
			time.Sleep(5 * time.Minute)
			s.stock.failSteps()
			time.Sleep(5 * time.Second)
			stop()
			if booked := append(s.stock.booked(), s.stock.bookedOf(pool.OfGuests)...); len(booked) != 0 {
				t.Errorf("%q booked for 24 h; no order was ever placed", booked)
			}
		})
	}
}
