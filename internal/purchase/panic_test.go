package purchase

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
	"poold/internal/provider"
)

// A panic in one order is logged with its stack, and the order ends with the panic as its error.
// The slot is freed, and the order counts as bought.
func TestAPanicEndsOneOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		s := newTestBuyer(t, 1)
		s.buyer.log = slog.New(slog.NewTextHandler(&logged, nil))
		s.provider.poll = func(context.Context, int) (provider.Solution, error) { panic("a fault of ours") }
		r := s.buyer.orders.collect(t.Context(), s.order(t))
		if r.Outcome != Lost || !strings.Contains(r.Err.Error(), "a fault of ours") {
			t.Errorf("collect = %v, want Lost with the panic", r.Err)
		}
		s.want(t, "mark", "submit", "claim t1", "store t1", "poll t1", "login at one: lost")
		if !strings.Contains(logged.String(), "panic_test.go") {
			t.Errorf("no stack in the log:\n%s", logged.String())
		}
		if orders, places := s.stock.counts(); orders != 1 || places != 1 || s.buyer.slots()[0] != 0 {
			t.Errorf("left: %d orders, %d permits, %d slots", orders, places, s.buyer.slots()[0])
		}
	})
}

// A panic while an order is placed ends only this order, frees the slot, and is logged.
func TestAPanicWhileBuyingEndsOneOrder(t *testing.T) {
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
			slot, _, _ := mustAdmit(t, s.buyer)
			err := s.buyer.Buy(t.Context(), slot, spec(), ended)
			if stands := err == nil; stands == (name == "placing") {
				t.Errorf("buy = %v", err)
			}
			if err := s.buyer.Wait(); err != nil || s.buyer.slots()[0] != 0 {
				t.Errorf("wait = %v, %v slots are taken", err, s.buyer.slots())
			}
			if text := logged.String(); !strings.Contains(text, "a fault of ours") || !strings.Contains(text, "panic_test.go") {
				t.Errorf("panic or stack not in the log: %.300s", text)
			}
			if solved := slices.Contains(s.all(), "login at one: solved"); solved == (name == "placing") {
				t.Errorf("what happened: %q", s.all())
			}
		})
	}
}

// panickingObserver is an observer whose methods panic.
type panickingObserver struct {
	witness
	broken *atomic.Bool
}

func (c panickingObserver) DeadLetter(outcome string) {
	if c.broken.Load() {
		panic("a fault of ours")
	}
	c.witness.DeadLetter(outcome)
}

func (c panickingObserver) Report(name, outcome string) {
	if c.broken.Load() {
		panic("a fault of ours")
	}
	c.witness.Report(name, outcome)
}

// A panic ends only one call of Run's periodic work. Later calls renew leases, replay dead letters
// and pass on reports.
func TestRunOutlivesPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCallbackBuyer(t, t.TempDir())
		var broken, faulty atomic.Bool
		s.provider.report = func() error {
			if faulty.Load() {
				panic("a fault of ours")
			}
			return nil
		}
		s.buyer.observe = panickingObserver{witness{s.ledger}, &broken}
		s.provider.poll = notReady(1000)
		s.stock.failSteps("look")
		first, second, held := s.order(t), s.order(t), s.order(t)
		s.mustCall(t, callbackTo(first.address(), "code=03AFcallback"))
		ended := s.startCollecting(t, held)
		stop := s.startRunning(t)
		time.Sleep(100 * time.Millisecond)

		// The stock panics in two renewals and two replays, and the provider panics too.
		var panics atomic.Int64
		s.stock.change(func() { s.stock.fault = func(string) error { panics.Add(1); panic("a fault of ours") } })
		faulty.Store(true)
		s.buyer.Report("one", "t1", captcha.HCaptcha, 0, true)
		time.Sleep(4 * time.Second)
		faulty.Store(false)
		s.stock.failSteps("look")
		s.mustCall(t, callbackTo(second.address(), "code=03AFcallback2"))
		if n := panics.Load(); n < 4 {
			t.Errorf("%d panics, so too little was tested", n)
		}

		// The observer panics.
		s.stock.failSteps()
		broken.Store(true)
		s.buyer.Report("one", "t2", captcha.HCaptcha, 0, true)
		time.Sleep(2*replayEvery + 100*time.Millisecond)
		broken.Store(false)

		s.forget()
		s.buyer.Report("one", "t3", captcha.HCaptcha, 0, true)
		synctest.Wait()
		s.want(t, "report t3 true", "report to one: passed")
		if n := len(s.stock.landed()); n != 2 || s.buyer.DeadLetterCount() != 0 {
			t.Errorf("%d tokens landed, %d letters left", n, s.buyer.DeadLetterCount())
		}
		s.stock.steal(t.Context(), held.Ref)
		if r := <-ended; r.Outcome != Elsewhere {
			t.Errorf("collect = %v, want Elsewhere by the next renewal", r.Err)
		}
		stop()
	})
}
