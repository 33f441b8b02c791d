package purchase

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// newTestScheduler returns a scheduler for one provider with the given number of slots.
func newTestScheduler(slots int) *scheduler {
	as := newAccounts(&base{log: quiet()})
	as.replace([]Entry{{Provider: newFakeProvider(&ledger{}, "one"), Concurrency: slots}})
	return newScheduler(as)
}

// mustBeIdle fails the test if a slot is taken or a request waits.
func (q *scheduler) mustBeIdle(t *testing.T) {
	t.Helper()
	q.mu.Lock()
	defer q.mu.Unlock()
	_, list := q.accounts.list(time.Now())
	if list[0].InFlight != 0 || q.waiting.Len() != 0 {
		t.Errorf("%d slots are taken, %d requests wait", list[0].InFlight, q.waiting.Len())
	}
}

// A changed bid moves the request. A change after the grant does nothing.
func TestChangedBidMovesTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newTestScheduler(1)
		held, err := q.admit(t.Context(), Bid{})
		if err != nil {
			t.Fatal(err)
		}
		var served []string
		ask := func(name string, worth float64) *Request {
			return q.request(Bid{Worth: worth}, func(slot *Slot, _ error) {
				served = append(served, name)
				slot.Free()
			})
		}
		falls, _, rises := ask("falls", 3), ask("stays", 2), ask("rises", 1)
		rises.Change(Bid{Worth: 4})
		falls.Change(Bid{Worth: 1})
		held.Free()
		synctest.Wait()
		if want := []string{"rises", "stays", "falls"}; !slices.Equal(served, want) {
			t.Errorf("served %v, want %v", served, want)
		}
		rises.Change(Bid{Worth: 9})
		q.mustBeIdle(t)
	})
}

// Concurrent grants and withdrawals lose no slot and grant no slot twice.
func TestSchedulerLosesNoSlot(t *testing.T) {
	q := newTestScheduler(1)
	var inside, served atomic.Int32
	var callers sync.WaitGroup
	for i := range 8 {
		callers.Go(func() {
			for n := range 300 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration((n*7+i)%50)*time.Microsecond)
				if slot, err := q.admit(ctx, Bid{}); err == nil {
					if inside.Add(1) != 1 {
						t.Error("the slot was given twice")
					}
					served.Add(1)
					inside.Add(-1)
					slot.Free()
				}
				cancel()
			}
		})
	}
	callers.Wait()
	q.mustBeIdle(t)
	slot, err := q.admit(t.Context(), Bid{})
	if err != nil {
		t.Fatalf("the slot was lost: %v", err)
	}
	slot.Free()
	if served.Load() == 0 {
		t.Error("no request was served, so nothing was tested")
	}
}

// Requests with callers come before requests without callers. Among requests without callers, the
// highest worth comes first; if the worth is equal, the longest wait. Of four slots, one goes to
// the longest wait, so that a worthless bid is served too.
func TestSlotsGoToTheBestBid(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		began := time.Now()
		since := func(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }
		held, err := s.buyer.Admit(t.Context(), Bid{})
		if err != nil {
			t.Fatal(err)
		}
		bids := []struct {
			name string
			Bid
		}{
			{"worthless", Bid{Since: since(-90)}}, // the buyer's first request
			{"good", Bid{Worth: 2, Since: since(-3)}},
			{"better", Bid{Worth: 3, Since: since(-2)}},
			{"as good, longer", Bid{Worth: 2, Since: since(-9)}},
			{"poor", Bid{Worth: 1, Since: since(-1)}},
			{"callers", Bid{Callers: true, Since: since(-4)}},
			{"callers, longer", Bid{Callers: true, Worth: 1, Since: since(-5)}},
			{"gone", Bid{Callers: true, Since: since(-99)}},
		}
		got := &ledger{}
		var targets sync.WaitGroup
		impatient, leave := context.WithCancel(t.Context())
		for _, b := range bids {
			patience := map[bool]context.Context{false: t.Context(), true: impatient}[b.name == "gone"]
			targets.Go(func() {
				slot, err := s.buyer.Admit(patience, b.Bid)
				if err != nil {
					return
				}
				got.add("%s", b.name)
				time.Sleep(time.Second)
				slot.Free()
			})
			synctest.Wait()
		}
		leave()
		synctest.Wait()
		held.Free()
		targets.Wait()
		got.want(t, "callers, longer", "callers", "worthless", "better", "as good, longer", "good", "poor")
		if slots := s.buyer.slots(); slots[0] != 0 {
			t.Errorf("%d slots still taken", slots[0])
		}
	})
}
