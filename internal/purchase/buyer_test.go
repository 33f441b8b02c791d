package purchase

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

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
