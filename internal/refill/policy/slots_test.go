//go:build !race

package policy

import (
	"math"
	"testing"
)

// Orders that wait for a slot increase the estimated gap between slots. While slots are free, the
// estimate slowly decreases.
func TestSlots(t *testing.T) {
	const every, free = 3.6, 0.3
	s, now := slots{}, 1000.0
	s.want(now, 100)
	for range 100 {
		now += every
		s.placed(now, free)
	}
	if math.Abs(s.gap-every) > 0.1 {
		t.Errorf("a slot each %.1f s is taken for one each %.2f s", every, s.gap)
	}
	learned := s.gap
	s.want(now, 20)
	for range 20 {
		s.placed(now, free)
	}
	if s.gap < 0.8*learned || s.gap >= learned {
		t.Errorf("20 free slots make %.2f s of %.2f s", s.gap, learned)
	}
	for range 1000 {
		s.want(now, 1)
		s.placed(now+free/2, free)
	}
	if s.gap > 0.01 {
		t.Errorf("still %.2f s after a thousand free slots", s.gap)
	}
}

// An order that gets a slot immediately counts as an order without a wait. A time in which no order
// is wanted does not count as a wait.
func TestFreeSlotsAreNoWait(t *testing.T) {
	s, now := slots{}, 1000.0
	for range 100 {
		now += 60
		s.placed(now, 0.3) // an order without a decision
		now += 60
		s.want(now, 2)
		s.placed(now, 0.3)
		s.placed(now+0.2, 0.3)
	}
	if s.gap != 0 {
		t.Errorf("gap %.2f", s.gap)
	}
	// A new decision does not restart the wait.
	s.want(now, 1)
	s.want(now+5, 3)
	if s.placed(now+8, 0.3); math.Abs(s.gap-8.0/slotWaits) > 1e-9 {
		t.Errorf("gap %.2f after a wait of 8 s", s.gap)
	}
}

// A provider takes orders more slowly than tokens are needed. The policy then wants more tokens
// ahead, to replace tokens that could not be ordered in time. If solves fail, further slots are
// needed.
func TestFewSlotsWantMoreAhead(t *testing.T) {
	m := NewState(usual())
	at := after(requests(m, 0, 2000, 1))
	want := func(gap, fails float64) int {
		m.planned, m.slots.gap, m.learned.solves.fails = 0, gap, fails
		return m.Plan(at, 0).Want
	}
	free, few, fewer, failing := want(0, 0), want(1.5, 0), want(3, 0), want(1.5, 0.5)
	t.Logf("%d wanted with free slots, %d with a slot each 1.5 s, %d with one each 3 s", free, few, fewer)
	if few < free+20 || few > free+30 || fewer < few+5 || fewer > few+15 {
		t.Errorf("%d wanted with free slots, %d with a slot each 1.5 s, %d with one each 3 s", free, few, fewer)
	}
	if failing != fewer {
		t.Errorf("%d wanted if half of the solves fail, %d with half as many slots", failing, fewer)
	}
	if p := m.Plan(at, 0); p.Risk > 0.05 { // risk of the next lead time, not of a later one
		t.Errorf("with %d tokens ahead the risk is %.3f", p.Want, p.Risk)
	}
	if again := want(0, 0); again != free {
		t.Errorf("%d wanted with free slots again, %d before", again, free)
	}
}
