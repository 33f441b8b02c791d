package purchase

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/provider"
)

// A callback that comes again after Redis was away brings a token as old as the
// first one did, also where the first could not be kept.
func TestARepeatedCallbackIsNoYounger(t *testing.T) {
	for _, disk := range []bool{true, false} {
		t.Run(fmt.Sprint(disk), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newCallbackShop(t, filepath.Join(t.TempDir(), "l"))
				if !disk {
					s.desk.letters = newLetterBox("")
				}
				o := s.order(t)
				time.Sleep(15 * time.Second)
				s.stock.away("look")
				_ = s.desk.Callback(t.Context(), word(o.address(), "code=03AF")) // kept, or 503
				time.Sleep(30 * time.Second)
				s.stock.away()
				s.mustCall(t, word(o.address(), "code=03AF")) // a repeat, before the next replay
				if l := s.stock.landed(); len(l) != 1 || l[0].SincePlaced != 5*time.Second {
					t.Errorf("born %v after the placing, want 5s: first arrival less the delay", l[0].SincePlaced)
				}
			})
		})
	}
}

// A poll says that the task has failed, but another replica has ended the order or
// taken it over: it is not counted a second time.
func TestAFailureSeenTooLateIsNotTold(t *testing.T) {
	for _, gone := range []bool{false, true} {
		t.Run(fmt.Sprint(gone), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newCallbackShop(t, "no letters")
				o := s.order(t)
				s.seat.poll = func(ctx context.Context, _ int) (provider.Solution, error) {
					if gone {
						s.stock.landElsewhere(ctx, o.Ref)
					} else {
						s.stock.steal(ctx, o.Ref)
					}
					return provider.Solution{}, &provider.Error{Class: provider.Task, Code: "ERROR_WRONG_CAPTCHA_ID"}
				}
				err := s.desk.Collect(t.Context(), o)
				if !errors.Is(err, ErrElsewhere) || slices.Contains(s.all(), "login at one: failed") {
					t.Errorf("collect = %v, %q", err, s.all())
				}
			})
		})
	}
}

// An order that was adopted while its submit was in flight is this replica's again
// with its task.
func TestATaskThatComesAfterTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t, 1)
		stop := s.running(t)
		o := s.order(t)
		s.seat.submit = func(ctx context.Context) (string, error) {
			s.stock.steal(ctx, o.Ref)
			if ok, err := s.stock.other().Unknown(ctx, o.Ref, time.Minute); err != nil || !ok {
				t.Error(ok, err)
			}
			time.Sleep(4 * time.Second)
			return "t1", nil
		}
		err := s.desk.Collect(t.Context(), o)
		stop()
		if err != nil {
			t.Errorf("collect = %v, %q", err, s.all())
		}
	})
}

// However many secrets a provider has or had, the one that signs is known.
func TestTheSigningSecretStaysKnown(t *testing.T) {
	for _, once := range []bool{true, false} {
		t.Run(fmt.Sprint(once), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShop(t, 1)
				var all []captcha.Secret
				n := mostSecrets
				if once {
					n++
				}
				for i := range n {
					all = append(all, captcha.Secret(fmt.Sprint("secret", i)))
					if !once {
						s.reload(calling("constant", all[i]))
					}
				}
				if once {
					s.reload(calling(all...))
				}
				s.mustCall(t, word(s.order(t).address(), "code=03AF"))
				if s.stock.tokens() != 1 {
					t.Errorf("%q", s.all())
				}
			})
		})
	}
}

// A stop that comes while the submit is being noted takes the order back.
func TestAStopBeforeTheSubmitBuysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t, 1)
		o := s.order(t)
		ctx, stop := context.WithCancel(t.Context())
		s.stock.lostReply = func(step string) error {
			if step == "mark" {
				stop()
			}
			return nil
		}
		err := s.desk.Collect(ctx, o)
		if slices.Contains(s.all(), "submit") {
			t.Errorf("bought after the stop: %v, %q", err, s.all())
		}
	})
}

type panicky struct{ witness }

func (panicky) Solve(string, string, string, time.Duration) { panic("a fault of ours") }

// A fault of the observer ends one order, not the daemon.
func TestAPanicOfTheObserverStaysInside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t, 1)
		s.desk.observe = panicky{witness{s.ledger}}
		defer func() {
			if c := recover(); c != nil {
				t.Errorf("escaped: %v", c)
			}
		}()
		_ = s.desk.Collect(t.Context(), s.order(t))
	})
}

// An order of unknown fate that comes with an adoption is left alone.
func TestAnUnknownOrderIsNeverSubmittedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t, 1)
		o := s.found(t, pool.Unknown)
		before := s.stock.owner(o.Ref)
		s.stock.endLease(o.Ref)
		heir := s.replica("no letters")
		s.forget()
		if got := heir.adopt(t); len(got) != 0 {
			t.Errorf("adopted %+v", got)
		}
		s.want(t)
		if owner := s.stock.owner(o.Ref); owner == before {
			t.Error("the script did not hand it over, so nothing was tested")
		}
	})
}

// A replay of many letters ends soon after a stop.
func TestAReplayEndsWithTheDaemon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCallbackShop(t, t.TempDir())
		s.stock.away("look")
		for range 4 {
			s.mustCall(t, word(s.order(t).address(), "code=03AF"))
		}
		ctx, stop := context.WithCancel(t.Context())
		s.stock.change(func() {
			s.stock.fault = func(step string) error {
				if step == "settle" {
					stop()
					time.Sleep(2 * time.Second)
				}
				return nil
			}
		})
		began := time.Now()
		r, err := s.desk.Replay(ctx)
		if time.Since(began) > 3*time.Second {
			t.Errorf("went on for %v after the stop: %+v, %v", time.Since(began), r, err)
		}
	})
}

// A report that is tried again is not sent when the window is over by then.
func TestAReportIsNotSentAfterItsWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t, 1)
		s.seat.report = func() error { return &provider.Error{Class: provider.Capacity, Code: "CODE"} }
		stop := s.running(t)
		s.desk.Report("one", "t1", captcha.HCaptcha, time.Minute-50*time.Millisecond, true)
		time.Sleep(time.Minute)
		stop()
		s.want(t, "report t1 true", "report to one: late")
	})
}

type timed struct {
	witness
	took *time.Duration
}

func (x timed) Solve(_, _, _ string, took time.Duration) { *x.took = took }

// A letter of a clock that was ahead tells no negative lead time.
func TestAClockThatWentBackGivesNoNegativeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCallbackShop(t, "no letters")
		var took time.Duration
		s.desk.observe = timed{witness{s.ledger}, &took}
		c := word(s.order(t).address(), "code=03AF")
		c.At = c.At.Add(-time.Second)
		s.mustCall(t, c)
		if took < 0 {
			t.Errorf("told that it took %v", took)
		}
	})
}

// An adopted order that a callback ended is not lost, also where callbacks were
// switched off meanwhile.
func TestAnAdoptedOrderKnowsThatItIsCalledBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCallbackShop(t, "no letters")
		o := s.found(t, pool.Bought)
		heir := s.replica("no letters") // callbacks are off by now, but the order has its address
		got := heir.adopt(t)
		s.mustCall(t, word(o.address(), "code=03AF")) // at another replica
		s.forget()
		err := heir.desk.Collect(t.Context(), got[0])
		if !errors.Is(err, ErrElsewhere) || slices.Contains(s.all(), "login at one: lost") {
			t.Errorf("collect = %v, %q", err, s.all())
		}
	})
}

// A fault while leftovers are taken back forgets none.
func TestAPanicForgetsNoLeftovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t, 1)
		s.stock.away("")
		slot, _, _ := mustAdmit(t, s.desk)
		_, _ = s.desk.Place(t.Context(), slot, spec())
		s.stock.change(func() { s.stock.fault = func(string) error { panic("?") } })
		s.desk.guarded(func() { s.desk.tidy(t.Context()) })
		if len(s.desk.leftovers) != 1 {
			t.Errorf("%d leftovers", len(s.desk.leftovers))
		}
	})
}

// Redis goes away between a refusal and the giving back, or right after a booking
// for longer than an order's time: no solve stays in the budget that was not bought.
func TestNothingStaysInTheBudget(t *testing.T) {
	for name, c := range map[string]struct {
		away   []string
		refuse bool
	}{
		"refusal": {[]string{"refund"}, true},
		"outage":  {[]string{"place", "fail", "refund", "release", "look"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShop(t, 1)
				s.desk.SetBudget(5)
				stop := s.running(t)
				slot, _, _ := mustAdmit(t, s.desk)
				target := spec()
				if c.refuse {
					target.Depth = 0
				}
				s.stock.away(c.away...)
				if _, err := s.desk.Place(t.Context(), slot, target); err == nil {
					t.Fatal("placed")
				}
				time.Sleep(5 * time.Minute)
				s.stock.away()
				time.Sleep(5 * time.Second)
				stop()
				if booked := s.stock.booked(); len(booked) != 0 {
					t.Errorf("%q booked for 24 h; no order was ever placed", booked)
				}
			})
		})
	}
}

// The adopter's file has a shorter time-out than the order was placed with.
func TestAnAdoptedOrderKeepsItsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t, 1)
		s.found(t, pool.Bought)
		heir := s.replica("no letters")
		heir.seat.limit = 20 * time.Second
		heir.seat.poll = notReady(6)
		if err := heir.desk.Collect(t.Context(), heir.adopt(t)[0]); err != nil {
			t.Errorf("collect = %v", err)
		}
	})
}

// One broken dead letter keeps nobody from starting.
func TestABrokenLetterDoesNotStopTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := openBox(t)
		b.plant(t, strings.Repeat("0", 64)+".json", "{")
		s := newShopWith(t, 1, b.dir)
		for range 2 {
			if err := s.desk.OpenLetters(); err != nil {
				t.Errorf("opening: %v", err)
			}
		}
	})
}

// A service that hangs makes no report to another one late, and none is
// forgotten at a stop: each is told once.
func TestReportsToSeveralProvidersAndAtAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t, 1)
		s.desk.SetProviders([]Entry{{Provider: s.seat, Concurrency: 1}, {Provider: newSeat(s.ledger, "two"), Concurrency: 1}})
		s.seat.report = func() error {
			time.Sleep(10 * time.Second)
			return &provider.Error{Class: provider.Capacity, Code: "timeout"}
		}
		stop := s.running(t)
		s.forget()
		for range 5 {
			s.desk.Report("one", "t1", captcha.HCaptcha, 0, false)
		}
		s.desk.Report("two", "t2", captcha.HCaptcha, 0, false)
		time.Sleep(time.Second)
		if !slices.Contains(s.all(), "report to two: passed") {
			t.Errorf("after a second: %q", s.all())
		}
		for range reportsAtOnce {
			s.desk.Report("one", "t1", captcha.HCaptcha, 0, false)
		}
		stop()
		s.desk.Report("one", "t1", captcha.HCaptcha, 0, false)
		told := 0
		for _, entry := range s.all() {
			if strings.HasPrefix(entry, "report to ") {
				told++
			}
		}
		if want := 5 + 1 + reportsAtOnce + 1; told != want {
			t.Errorf("%d reports are accounted for, want %d", told, want)
		}
	})
}

// Where callbacks do not arrive, three tasks wait for theirs in vain; the next
// ones are polled from the start, until a callback comes after all.
func TestSilentCallbacksArePolledFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCallbackShop(t, "no letters")
		tasks := 0
		s.seat.submit = func(context.Context) (string, error) {
			tasks++
			return fmt.Sprint("t", tasks), nil
		}
		first := func() time.Duration {
			t.Helper()
			o := s.order(t)
			var asked time.Time
			s.seat.poll = func(context.Context, int) (provider.Solution, error) {
				asked = time.Now()
				return provider.Solution{Token: "03AFexample"}, nil
			}
			if err := s.desk.Collect(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			return asked.Sub(o.placed)
		}
		silent := func() bool { return s.desk.Providers(boundedCtx(t), time.Now())[0].Silent }
		for range silentAfter {
			if wait := first(); wait != 40*time.Second || silent() && s.desk.sellers[0].unheard < silentAfter {
				t.Errorf("the first poll after %v, silent %v", wait, silent())
			}
		}
		if wait := first(); wait != 15*time.Second || !silent() {
			t.Errorf("then the first poll after %v, silent %v", wait, silent())
		}
		o := s.order(t)
		s.mustCall(t, word(o.address(), "code=03AFcallback"))
		if wait := first(); wait != 40*time.Second || silent() {
			t.Errorf("after a callback the first poll after %v, silent %v", wait, silent())
		}
	})
}

// Redis does not answer for one identity: the orders of the others are adopted
// all the same, at every provider.
func TestOneBadIdentityDoesNotStopAdoption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t, 9)
		target := spec()
		target.Identity.Sitekey = "other"
		target.ID = target.Identity.ID()
		first, second := s.found(t, pool.Bought), s.foundFor(t, target, pool.Bought)
		heir := s.replica("no letters")
		heir.desk.stock = halfStock{heir.stock, first.Identity}
		got, err := heir.desk.Adopt(t.Context())
		if !errors.Is(err, pool.ErrDown) || len(got) != 1 || got[0].Ref != second.Ref {
			t.Errorf("adopted %d orders, %v", len(got), err)
		}
	})
}

// halfStock does not answer for one identity.
type halfStock struct {
	*stock
	bad captcha.ID
}

func (s halfStock) Adopt(ctx context.Context, id captcha.ID, orders []string) ([]pool.Record, []pool.Ref, error) {
	if id == s.bad {
		return nil, nil, pool.ErrDown
	}
	return s.stock.Adopt(ctx, id, orders)
}
