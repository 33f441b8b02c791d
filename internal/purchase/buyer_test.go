package purchase

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/provider"
)

// mustAdmit waits for a slot. It returns the slot, the name of the slot's provider, and the
// duration of the wait.
func mustAdmit(t *testing.T, d *Buyer) (*Slot, string, time.Duration) {
	t.Helper()
	began := time.Now()
	slot, err := d.Admit(t.Context(), Bid{})
	if err != nil {
		t.Fatalf("admit: %v", err)
	}
	return slot, slot.account.Name(), time.Since(began)
}

func TestAdmitWithoutProviders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newTestBuyer(t, 1).buyer
		d.SetProviders(nil)
		if _, err := d.Admit(t.Context(), Bid{}); !errors.Is(err, ErrNoProvider) {
			t.Errorf("admit = %v, want ErrNoProvider", err)
		}
		// No request is pending.
		if _, err := d.Admit(t.Context(), Bid{}); !errors.Is(err, ErrNoProvider) {
			t.Errorf("second admit = %v, want ErrNoProvider", err)
		}
	})
}

// The first provider in the list gets all orders. While it is down, the next provider gets the orders.
func TestTheNextProviderTakesOver(t *testing.T) {
	withBuyer(t, 5, func(t *testing.T, s *testBuyer) {
		two := newFakeProvider(s.ledger, "two")
		s.buyer.SetProviders([]Entry{{Provider: s.provider, Concurrency: 5}, {Provider: two, Concurrency: 5}})
		admit := func(want string) {
			t.Helper()
			slot, name, took := mustAdmit(t, s.buyer)
			if name != want || took != 0 {
				t.Errorf("admitted at %s after %v, want %s at once", name, took, want)
			}
			slot.Free()
		}
		admit("one")
		s.provider.setState(provider.StateDown, time.Minute)
		admit("two")
		s.provider.setState(provider.StateOK, 0)
		admit("one")
	})
}

// A request waits for a provider that is up but full. The next provider gets orders only while the
// first provider is down.
func TestARequestWaitsForAFullProvider(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		s.buyer.SetProviders([]Entry{{Provider: s.provider, Concurrency: 1}, {Provider: newFakeProvider(s.ledger, "two"), Concurrency: 1}})
		slot, _, _ := mustAdmit(t, s.buyer)
		time.AfterFunc(7*time.Second, slot.Free)
		_, name, took := mustAdmit(t, s.buyer)
		if name != "one" || took != 7*time.Second {
			t.Errorf("admitted at %s after %v, want one after 7s", name, took)
		}
	})
}

// If a full provider goes down, its pending requests go to the next provider. Ready is not called
// for the full provider, because this call would use up the provider's next probe.
func TestRequestsLeaveAFullProviderThatGoesDown(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		s.buyer.SetProviders([]Entry{{Provider: s.provider, Concurrency: 1}, {Provider: newFakeProvider(s.ledger, "two"), Concurrency: 1}})
		mustAdmit(t, s.buyer)
		asked, _ := s.provider.calls()
		time.AfterFunc(3*time.Second, func() { s.provider.setState(provider.StateDown, time.Minute) })
		_, name, took := mustAdmit(t, s.buyer)
		if name != "two" || took > 3*time.Second+recheckEvery {
			t.Errorf("admitted at %s after %v, want two soon after 3s", name, took)
		}
		if now, _ := s.provider.calls(); now != asked {
			t.Errorf("the full provider was asked %d times", now-asked)
		}
	})
}

// While no provider is ready, a request waits until the earliest time that Ready returned. It calls
// Ready only a few times.
func TestAdmitWaitsForTheEarliestRetry(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		s.provider.setState(provider.StateBusy, 0) // without a delay
		time.AfterFunc(10*time.Second, func() { s.provider.setState(provider.StateOK, 0) })
		_, _, took := mustAdmit(t, s.buyer)
		if took < 10*time.Second || took > 10*time.Second+shortestRecheck {
			t.Errorf("admitted after %v, want just after 10s", took)
		}
		if most := int(10*time.Second/shortestRecheck) + 2; most < readies(s.provider) {
			t.Errorf("asked %d times in 10s, want at most %d", readies(s.provider), most)
		}
	})
}

func readies(s *fakeProvider) int { n, _ := s.calls(); return n }

// Slots are granted in the order of the requests. In this test only one slot is free at a time, because
// two callers that get their slots at the same time could report them in either order.
func TestAdmitIsFirstComeFirstServed(t *testing.T) {
	withBuyer(t, 2, func(t *testing.T, s *testBuyer) {
		a, _, _ := mustAdmit(t, s.buyer)
		b, _, _ := mustAdmit(t, s.buyer)
		got := &ledger{}
		var callers sync.WaitGroup
		for i := range 5 {
			callers.Go(func() {
				slot, _, _ := mustAdmit(t, s.buyer)
				got.add("%d", i)
				time.Sleep(time.Second + time.Duration(i)*time.Millisecond)
				slot.Free()
			})
			synctest.Wait()
		}
		a.Free()
		a.Free() // a second call is a no-op
		synctest.Wait()
		got.want(t, "0")
		b.Free()
		callers.Wait()
		got.want(t, "0", "1", "2", "3", "4")
		if taken := s.buyer.slots(); taken[0] != 0 {
			t.Errorf("%d slots still taken", taken[0])
		}
	})
}

// A reload wakes pending requests if it raises the concurrency, adds a provider or removes all
// providers.
func TestAReloadWakesPendingRequests(t *testing.T) {
	cases := map[string]struct {
		next func(s *testBuyer) []Entry
		want string
		err  error
	}{
		"more concurrency": {func(s *testBuyer) []Entry { return []Entry{{Provider: s.provider, Concurrency: 2}} }, "one", nil},
		"another provider": {func(s *testBuyer) []Entry {
			return []Entry{{Provider: newFakeProvider(s.ledger, "two"), Concurrency: 1}}
		}, "two", nil},
		"none at all": {func(*testBuyer) []Entry { return nil }, "", ErrNoProvider},
	}
	for name, c := range cases {
		runBubble(t, name, func(t *testing.T) {
			s := newTestBuyer(t, 1)
			mustAdmit(t, s.buyer)
			time.AfterFunc(100*time.Millisecond, func() { s.buyer.SetProviders(c.next(s)) })
			began := time.Now()
			slot, err := s.buyer.Admit(t.Context(), Bid{})
			if !errors.Is(err, c.err) {
				t.Fatalf("admit = %v, want %v", err, c.err)
			}
			if took := time.Since(began); took != 100*time.Millisecond {
				t.Errorf("took %v, want the moment of the reload", took)
			}
			if err == nil && slot.account.Name() != c.want {
				t.Errorf("admitted at %s, want %s", slot.account.Name(), c.want)
			}
		})
	}
}

// An unchanged provider keeps its slots during a reload. If the concurrency falls below the number of
// slots in use, requests wait until enough slots are free.
func TestAReloadKeepsSlots(t *testing.T) {
	withBuyer(t, 3, func(t *testing.T, s *testBuyer) {
		var held []*Slot
		for range 3 {
			slot, _, _ := mustAdmit(t, s.buyer)
			held = append(held, slot)
		}
		s.buyer.SetProviders([]Entry{{Provider: s.provider, Concurrency: 2}})
		if taken := s.buyer.slots(); taken[0] != 3 {
			t.Fatalf("%d slots taken after the reload, want 3", taken[0])
		}
		for i, slot := range held {
			time.AfterFunc(time.Duration(i+1)*time.Second, slot.Free)
		}
		if _, _, took := mustAdmit(t, s.buyer); took != 2*time.Second {
			t.Errorf("admitted after %v, want 2s, when two of three were freed", took)
		}
	})
}

func TestOrdersAtARemovedProviderAreCollected(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		o := s.order(t)
		two := newFakeProvider(s.ledger, "two")
		s.buyer.SetProviders([]Entry{{Provider: two, Concurrency: 1}})
		if r := s.buyer.orders.collect(t.Context(), o); r.Err != nil {
			t.Fatal(r.Err)
		}
		if l := s.stock.landed(); len(l) != 1 || l[0].Provider != "one" || two.polls != 0 {
			t.Errorf("landings %+v, polls at the other: %d", l, two.polls)
		}
	})
}

func TestAdmitEndsWithItsContext(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		slot, _, _ := mustAdmit(t, s.buyer)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var callers sync.WaitGroup
		for range 2 { // the first request and a second one
			callers.Go(func() {
				if _, err := s.buyer.Admit(ctx, Bid{}); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("admit = %v, want deadline exceeded", err)
				}
			})
		}
		callers.Wait()
		slot.Free()
		if _, _, took := mustAdmit(t, s.buyer); took != 0 {
			t.Errorf("the slot was free, but it took %v", took)
		}
	})
}

func TestProvidersAndPace(t *testing.T) {
	withBuyer(t, 3, func(t *testing.T, s *testBuyer) {
		if first, interval := s.buyer.Pace(captcha.HCaptcha); first != 15*time.Second || interval != 5*time.Second {
			t.Errorf("pace %v, %v", first, interval)
		}
		s.order(t)
		// Another replica has an order at the same provider.
		if _, err := s.stock.other().Acquire(t.Context(), "one", pool.Ref{Identity: spec().ID, Order: "foreign"}, 9, time.Minute, -1); err != nil {
			t.Fatal(err)
		}
		s.provider.setState(provider.StateBusy, time.Second)
		got := s.buyer.Providers(boundedCtx(t), time.Now())
		if len(got) != 1 || got[0].Name != "one" || got[0].InFlight != 2 || got[0].Concurrency != 3 || got[0].State.Kind != provider.StateBusy {
			t.Errorf("providers: %+v", got)
		}
		s.stock.fault = func(string) error { return errors.New("away") }
		if got := s.buyer.Providers(boundedCtx(t), time.Now()); got[0].InFlight != 1 {
			t.Errorf("in flight %d while Redis is away, want this replica's 1", got[0].InFlight)
		}
		s.buyer.SetProviders(nil)
		if first, interval := s.buyer.Pace(captcha.HCaptcha); first != 0 || interval != 0 {
			t.Errorf("pace without a provider: %v, %v", first, interval)
		}
	})
}

func boundedCtx(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	t.Cleanup(cancel)
	return ctx
}

// The concurrency is the smaller of the number in the file and the provider's number of threads. The
// number of threads is read each minute. After an error the last number stays in force.
func TestThreadsLimitConcurrency(t *testing.T) {
	withBuyer(t, 20, func(t *testing.T, s *testBuyer) {
		answers := []func() (int, bool, error){
			func() (int, bool, error) { return 5, true, nil },
			func() (int, bool, error) { return 0, false, errors.New("away") },
			func() (int, bool, error) { return 50, true, nil },
			func() (int, bool, error) { return 0, true, nil },
			func() (int, bool, error) { return 0, false, nil },
		}
		minute := 0
		s.provider.threads = func() (int, bool, error) { minute++; return answers[minute-1]() }
		stop := s.startRunning(t)
		for i, want := range []int{5, 5, 20, 1, 20} {
			synctest.Wait()
			if got := s.buyer.Providers(boundedCtx(t), time.Now())[0].Concurrency; got != want {
				t.Errorf("minute %d: concurrency %d, want %d", i, got, want)
			}
			if i < len(answers)-1 {
				time.Sleep(refreshEvery)
			}
		}
		stop()
	})
}

// Maintenance reads the limits of a new provider immediately. It makes no call to a provider that
// is down, and survives a panic.
func TestMaintenanceReadsProviders(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		s.provider.setState(provider.StateDown, time.Hour)
		stop := s.startRunning(t)
		two, three := newFakeProvider(s.ledger, "two"), newFakeProvider(s.ledger, "three")
		two.threads = func() (int, bool, error) { panic("a fault of ours") }
		s.buyer.SetProviders([]Entry{{Provider: s.provider, Concurrency: 1}, {Provider: two, Concurrency: 1}, {Provider: three, Concurrency: 1}})
		synctest.Wait()
		for i, want := range []int{0, 1, 1} {
			if _, asked := []*fakeProvider{s.provider, two, three}[i].calls(); asked != want {
				t.Errorf("provider %d was asked %d times, want %d", i, asked, want)
			}
		}
		time.Sleep(refreshEvery)
		synctest.Wait()
		if _, asked := three.calls(); asked != 2 {
			t.Errorf("asked %d times after a minute, want 2", asked)
		}
		stop()
	})
}
