package policy

const (
	// An order that waited for a slot has the weight 1/slotWaits in the mean of the waits. An order
	// that got a slot at once has the weight 1/slotFree, because a free slot says little about later
	// slots.
	slotWaits = 16
	slotFree  = 128
)

// slots estimates how soon this target gets its next slot at the provider. The target
// competes with other targets for slots. Times are in seconds.
type slots struct {
	gap    float64 // mean time from one order to the next while orders wait for slots
	wanted int     // orders decided and not yet placed; not saved
	since  float64 // when the next wanted order began to wait; not saved
}

// want records the number of orders of a decision.
func (s *slots) want(at float64, orders int) {
	if s.wanted == 0 {
		s.since = at
	}
	s.wanted = orders
}

// placed records that a wanted order got its slot. A wait of at most the duration free
// counts as no wait.
func (s *slots) placed(at, free float64) {
	if s.wanted == 0 {
		return
	}
	if waited := at - s.since; waited > free {
		s.gap += (waited - s.gap) / slotWaits
	} else {
		s.gap -= s.gap / slotFree
	}
	s.wanted--
	s.since = at
}

// perToken returns the time per further token in scaled seconds, if the share fails of the solves
// fails.
func (s *slots) perToken(scale, fails float64) float64 {
	const leastSolved = 0.1
	return s.gap / scale / max(leastSolved, 1-fails)
}
