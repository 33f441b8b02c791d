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
)

// A budget that is used up refuses the order, says until when, and keeps
// neither place nor slot; the other budget gets its part back.
func TestBudgetsRefuse(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(s *shop)
		want    BudgetError
		text    string
		booked  int // in the budget over all targets, afterwards
		asked   string
	}{
		"over all targets": {
			func(s *shop) { s.stock.booked[pool.Ref{Order: "another"}] = true },
			BudgetError{Overall: true, RetryAfter: time.Hour}, "over all targets", 1, "book",
		},
		"the target's": {
			func(s *shop) { s.stock.wait = 7 * time.Minute },
			BudgetError{RetryAfter: 7 * time.Minute}, "the target's", 0, "place",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop(1)
			s.desk.SetBudget(1)
			c.prepare(s)
			slot, _, _ := mustAdmit(t, s.desk)
			_, err := s.desk.Place(t.Context(), slot, spec())
			var got *BudgetError
			if !errors.As(err, &got) || *got != c.want || !strings.Contains(err.Error(), c.text) {
				t.Errorf("place = %v, want %+v", err, c.want)
			}
			happened := s.all()
			if i := slices.Index(happened, c.asked); i < 0 || !slices.Contains(happened[i:], "release") {
				t.Errorf("what happened: %q", happened)
			}
			s.wantLeft(t, 0, 0, 0)
			if len(s.stock.booked) != c.booked {
				t.Errorf("%d booked, want %d", len(s.stock.booked), c.booked)
			}
		})
	}
}

// Without a budget over all targets nobody asks Redis for one.
func TestNoBudgetBooksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(1)
		s.desk.SetBudget(3)
		s.desk.SetBudget(0) // a reload took it away
		slot, _, _ := mustAdmit(t, s.desk)
		o, err := s.desk.Place(t.Context(), slot, spec())
		if err != nil {
			t.Fatal(err)
		}
		s.seat.submit = func(context.Context) (string, error) {
			return "", &provider.Error{Class: provider.Capacity, Code: "CODE"}
		}
		if err := s.desk.Collect(t.Context(), o); !errors.Is(err, ErrBusy) {
			t.Errorf("collect = %v, want ErrBusy", err)
		}
		s.want(t, "reserve", "place", "mark", "submit", "fail bought=false", "release", "login at one: busy")
		s.stock.away("look")
		if used, perDay, err := s.desk.Booked(t.Context()); used != 0 || perDay != 0 || err != nil {
			t.Errorf("booked = %d of %d, %v", used, perDay, err)
		}
	})
}

// What is left of the budget over all targets is told with it.
func TestBooked(t *testing.T) {
	s := newShop(2)
	s.desk.SetBudget(7)
	s.order(t)
	if used, perDay, err := s.desk.Booked(t.Context()); used != 1 || perDay != 7 || err != nil {
		t.Errorf("booked = %d of %d, %v; want 1 of 7", used, perDay, err)
	}
	s.stock.away("look")
	if _, perDay, err := s.desk.Booked(t.Context()); perDay != 7 || !errors.Is(err, pool.ErrDown) {
		t.Errorf("booked of %d, %v while redis is away", perDay, err)
	}
}

// The budget comes back exactly where nothing was bought for certain.
func TestRefunds(t *testing.T) {
	fault := func(c provider.Class) error { return &provider.Error{Class: c, Code: "CODE"} }
	submit := func(err error) func(*shop, *Order) {
		return func(s *shop, _ *Order) { s.seat.submit = func(context.Context) (string, error) { return "", err } }
	}
	poll := func(err error) func(*shop, *Order) {
		return func(s *shop, _ *Order) {
			s.seat.poll = func(context.Context, int) (provider.Solution, error) { return provider.Solution{}, err }
		}
	}
	steal := func(s *shop, o *Order) { s.stock.orders[o.Ref].stolen = true }
	for name, c := range map[string]struct {
		prepare  func(s *shop, o *Order)
		refunded bool
	}{
		"capacity":           {submit(fault(provider.Capacity)), true},
		"account":            {submit(fault(provider.Account)), true},
		"parameters":         {submit(fault(provider.Parameters)), true},
		"an unknown code":    {submit(fault(provider.Task)), true},
		"a mark that failed": {func(s *shop, _ *Order) { s.stock.away("mark") }, true},
		"solved":             {func(*shop, *Order) {}, false},
		"a task that failed": {poll(fault(provider.Task)), false},
		"parameters, bought": {poll(fault(provider.Parameters)), false},
		"never ready":        {poll(provider.ErrNotReady), false},
		"no answer":          {submit(&provider.Error{Class: provider.Capacity, Code: "EOF", Unknown: true}), false},
		"a stray error":      {submit(context.DeadlineExceeded), false},
		"another's task":     {func(s *shop, _ *Order) { s.stock.claims["one/t1"] = pool.Ref{Order: "another"} }, false},
		"redis stays away":   {func(s *shop, _ *Order) { s.stock.away("store") }, false},
		"another replica's":  {steal, false},
		"a panic":            {func(s *shop, _ *Order) { s.seat.submit = func(context.Context) (string, error) { panic("?") } }, false},
		"stolen, and refused": {func(s *shop, o *Order) {
			s.seat.submit = func(context.Context) (string, error) {
				s.stock.change(func() { steal(s, o) })
				return "", fault(provider.Capacity)
			}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShop(1)
				s.desk.SetBudget(5)
				o := s.order(t)
				if !s.stock.booked[o.Ref] {
					t.Fatal("nothing was booked")
				}
				c.prepare(s, o)
				err := s.desk.Collect(t.Context(), o)
				if refunded := !s.stock.booked[o.Ref]; refunded != c.refunded {
					t.Errorf("collect = %v, refunded: %v, want %v; %q", err, refunded, c.refunded, s.all())
				}
			})
		})
	}
}

// Also where the order did not get as far as its submit.
func TestRefundsBeforeTheSubmit(t *testing.T) {
	for name, spoil := range map[string]func(s *shop) error{
		"depth":               func(s *shop) error { s.stock.refuse = true; return ErrDepth },
		"no answer to book":   func(s *shop) error { s.stock.lostReply = lose("book", pool.ErrDown); return pool.ErrDown },
		"no answer to place":  func(s *shop) error { s.stock.lostReply = lose("place", pool.ErrDown); return pool.ErrDown },
		"redis away at place": func(s *shop) error { s.stock.away("place"); return pool.ErrDown },
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop(1)
			s.desk.SetBudget(5)
			slot, _, _ := mustAdmit(t, s.desk)
			want := spoil(s)
			if _, err := s.desk.Place(t.Context(), slot, spec()); !errors.Is(err, want) {
				t.Errorf("place = %v, want %v", err, want)
			}
			if len(s.stock.booked) != 0 {
				t.Errorf("still booked: %v", s.stock.booked)
			}
			s.wantLeft(t, 0, 0, 0)
		})
	}
	t.Run("stop", func(t *testing.T) {
		s := newShop(1)
		s.desk.SetBudget(5)
		o := s.order(t)
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if err := s.desk.Collect(ctx, o); !errors.Is(err, context.Canceled) {
			t.Errorf("collect = %v, want canceled", err)
		}
		s.want(t, "fail bought=false", "refund", "release")
		if len(s.stock.booked) != 0 {
			t.Error("still booked")
		}
	})
}

// Price, budgets and facts go into the journal with the order, so that whoever
// ends it knows them.
func TestOrderCarriesPriceBudgetsAndFacts(t *testing.T) {
	for price, want := range map[float64]int64{0: 0, 0.0029: 2_900_000, 1e-9: 1, 0.00013: 130000, 12.5: 12_500_000_000, math.SmallestNonzeroFloat64: 0} {
		s := newShop(1)
		s.desk.SetProviders([]Entry{{
			Provider: s.seat, Concurrency: 1, Callbacks: calling("first"),
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
		slot, _, _ := mustAdmit(t, s.desk)
		o, err := s.desk.Place(t.Context(), slot, target)
		if err != nil {
			t.Fatal(err)
		}
		placed := s.stock.orders[o.Ref].Order
		if placed.Price != want || placed.PerHour != 11 || placed.PerDay != 222 {
			t.Errorf("price %g: placed %+v, want %d", price, placed, want)
		}
		const text = `{"target":"login","provider":"one","type":"hcaptcha","enterprise":true,"lifetime_ms":120000,"margin_ms":40000,"called":true,"callback_delay_ms":10000,"timeout_ms":180000}`
		if placed.Facts != text {
			t.Errorf("facts %s, want %s", placed.Facts, text)
		}
	}
}

// The slot comes back also where Redis does not take the reservations back.
func TestRefusedOrderFreesItsSlotWhileRedisIsAway(t *testing.T) {
	for _, step := range []string{"refund", "release"} {
		s := newShop(1)
		s.desk.SetBudget(5)
		s.stock.refuse = true
		s.stock.away(step)
		slot, _, _ := mustAdmit(t, s.desk)
		if _, err := s.desk.Place(t.Context(), slot, spec()); !errors.Is(err, ErrDepth) {
			t.Errorf("place = %v, want ErrDepth", err)
		}
		s.wantLeft(t, 0, 1, 0)
	}
}
