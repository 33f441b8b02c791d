//go:build !race

package policy

import (
	"math"
	"testing"
)

// The gap between slots is learned from orders that wait, and forgotten slowly while slots are free.
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

// A free slot counts as no wait, and so does the time in which nothing is wanted.
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
	// Deciding anew does not begin the wait anew.
	s.want(now, 1)
	s.want(now+5, 3)
	if s.placed(now+8, 0.3); math.Abs(s.gap-8.0/slotWaits) > 1e-9 {
		t.Errorf("gap %.2f after a wait of 8 s", s.gap)
	}
}
