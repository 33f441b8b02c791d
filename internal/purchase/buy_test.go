package purchase

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
)

// buy admits and buys, and answers how the order ends.
func (s *testBuyer) buy(t *testing.T, target Spec) (<-chan Result, error) {
	t.Helper()
	slot, err := s.buyer.Admit(t.Context(), Bid{})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan Result, 1)
	return ended, s.buyer.Buy(t.Context(), slot, target, func(r Result) { ended <- r })
}

// Buying returns when the order stands, tells its end, and Wait waits for that.
func TestBuy(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		began := time.Now()
		ended, err := s.buy(t, spec())
		if err != nil || time.Since(began) != 0 {
			t.Errorf("buy = %v after %v", err, time.Since(began))
		}
		if err := s.buyer.Wait(); err != nil || len(ended) != 1 {
			t.Errorf("wait = %v, %d results", err, len(ended))
		}
		if r := <-ended; r.Outcome != Solved || r.Err != nil || s.stock.tokens() != 1 {
			t.Errorf("%+v, %d tokens", r, s.stock.tokens())
		}
	})
}

// The goroutines of orders are bounded, and who meets the bound does not hang on it.
func TestOrdersAreBounded(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		found := s.found(t, pool.Bought)
		heir := s.replica("no letters")
		hold := make(chan struct{})
		for range mostOrders {
			heir.buyer.orders.group.Go(func() error { <-hold; return nil })
		}
		if _, err := heir.buy(t, spec()); !errors.Is(err, ErrBusy) || heir.buyer.slots()[0] != 0 {
			t.Errorf("buy = %v, %v slots are taken", err, heir.buyer.slots())
		}
		// An order that nobody can see through here is left to others.
		err := heir.buyer.Adopt(t.Context(), time.Second, func(captcha.ID, Result) { t.Error("an order ended") })
		if err != nil || heir.buyer.slots()[0] != 0 {
			t.Errorf("adopt = %v, %v slots are taken", err, heir.buyer.slots())
		}
		close(hold)
		if err := heir.buyer.Wait(); err != nil {
			t.Error(err)
		}
		var ends []Result
		third := s.replica("no letters")
		err = third.buyer.Adopt(t.Context(), 0, func(id captcha.ID, r Result) {
			if id != found.Identity {
				t.Errorf("an order of %v ended", id)
			}
			ends = append(ends, r)
		})
		err = errors.Join(err, third.buyer.Wait())
		if err != nil || len(ends) != 1 || ends[0].Outcome != Solved {
			t.Errorf("then adopt = %v, %+v", err, ends)
		}
	})
}

// A fault of this program ends one order, frees its slot, and is told.
func TestAFaultWhileBuying(t *testing.T) {
	for name, fault := range map[string]func(s *testBuyer, ended *func(Result)){
		"placing": func(s *testBuyer, _ *func(Result)) {
			s.buyer.accounts.listed[0].price = func(captcha.Type) float64 { panic("a fault of ours") }
		},
		"telling its end": func(_ *testBuyer, ended *func(Result)) { *ended = func(Result) { panic("a fault of ours") } },
	} {
		runBubble(t, name, func(t *testing.T) {
			var logged bytes.Buffer
			s := newTestBuyer(t, 1)
			s.buyer.log = slog.New(slog.NewTextHandler(&logged, nil))
			ended := func(Result) { t.Error("an order ended") }
			fault(s, &ended)
			slot, err := s.buyer.Admit(t.Context(), Bid{})
			if err != nil {
				t.Fatal(err)
			}
			err = s.buyer.Buy(t.Context(), slot, spec(), ended)
			if stands := err == nil; stands == (name == "placing") {
				t.Errorf("buy = %v", err)
			}
			if err := s.buyer.Wait(); err != nil || s.buyer.slots()[0] != 0 {
				t.Errorf("wait = %v, %v slots are taken", err, s.buyer.slots())
			}
			if text := logged.String(); !strings.Contains(text, "a fault of ours") || !strings.Contains(text, "buy_test.go") {
				t.Errorf("panic or stack not in the log: %.300s", text)
			}
			if solved := slices.Contains(s.all(), "login at one: solved"); solved == (name == "placing") {
				t.Errorf("what happened: %q", s.all())
			}
		})
	}
}
