package purchase

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Callers get their turn in the order in which they came, and one that walks
// away is skipped.
func TestLineServesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l scheduler
		if err := l.enter(t.Context(), Bid{}); err != nil {
			t.Fatal(err)
		}
		impatient, leave := context.WithCancel(t.Context())
		stays := t.Context()
		patience := []context.Context{stays, stays, stays, impatient, stays, stays}
		var served []int
		var callers sync.WaitGroup
		for i := range patience {
			callers.Go(func() {
				if err := l.enter(patience[i], Bid{}); err != nil {
					if i != 3 || !errors.Is(err, context.Canceled) {
						t.Errorf("caller %d: %v", i, err)
					}
					return
				}
				served = append(served, i)
				l.leave()
			})
			synctest.Wait() // caller i stands in the line before i+1 comes
		}
		leave()
		synctest.Wait()
		l.leave()
		callers.Wait()
		if want := []int{0, 1, 2, 4, 5}; !slices.Equal(served, want) {
			t.Errorf("served %v, want %v", served, want)
		}
		if err := l.enter(t.Context(), Bid{}); err != nil {
			t.Errorf("the line is not free again: %v", err)
		}
	})
}

// A turn that comes in the very moment in which its caller walks away goes to
// the next one.
func TestTurnOfOneWhoLeavesIsPassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l scheduler
		passed := 0
		for range 200 { // which of the two it notices is up to chance
			if err := l.enter(t.Context(), Bid{}); err != nil {
				t.Fatal(err)
			}
			ctx, walkAway := context.WithCancel(t.Context())
			var callers sync.WaitGroup
			callers.Go(func() {
				if l.enter(ctx, Bid{}) == nil {
					l.leave()
				} else {
					passed++
				}
			})
			synctest.Wait()
			walkAway()
			l.leave()
			callers.Wait()
			if l.serving {
				t.Fatal("a turn was lost: the buyer is occupied by nobody")
			}
		}
		if passed == 0 {
			t.Error("nobody walked away, so nothing was tested")
		}
	})
}

// However turns and departures meet, there is never more than one at the buyer
// and no turn is lost.
func TestLineLosesNoTurn(t *testing.T) {
	var l scheduler
	var inside, served atomic.Int32
	var callers sync.WaitGroup
	for i := range 8 {
		callers.Go(func() {
			for n := range 300 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration((n*7+i)%50)*time.Microsecond)
				if l.enter(ctx, Bid{}) == nil {
					if inside.Add(1) != 1 {
						t.Error("two at the buyer")
					}
					served.Add(1)
					inside.Add(-1)
					l.leave()
				}
				cancel()
			}
		})
	}
	callers.Wait()
	if l.serving || len(l.waiting) != 0 {
		t.Errorf("after everyone left: serving %v, %d waiting", l.serving, len(l.waiting))
	}
	if served.Load() == 0 {
		t.Error("nobody was ever served, so nothing was tested")
	}
}

// Who comes with an ended context is not let in, even if nobody else is there.
func TestLineRefusesTheLate(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var l scheduler
	if err := l.enter(ctx, Bid{}); !errors.Is(err, context.Canceled) {
		t.Errorf("enter = %v, want context canceled", err)
	}
	if l.serving {
		t.Error("the buyer is occupied by nobody")
	}
}

// Callers who wait come first, then what is worth most, then who has waited
// longest; and every fourth place goes to who has waited longest whatever others
// bid, so that a worthless wish is met too.
func TestPlacesGoToTheBestBid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestBuyer(t, 1)
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
			{"worthless", Bid{Since: since(-90)}}, // at the buyer, since it came first
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
