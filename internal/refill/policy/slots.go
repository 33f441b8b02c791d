package policy

const (
	// The weight of an order that waited for a slot is 1/slotWaits. An order that got a slot at once has
	// the weight 1/slotFree: a free slot says little about later slots.
	slotWaits = 16
	slotFree  = 128
)

// slots estimates how soon this target gets its next slot at the provider, for which it competes with
// other targets. Times are in seconds.
type slots struct {
	gap    float64 // from one order to the next while orders wait
	wanted int     // orders decided and not yet placed; not saved
	since  float64 // when the next of them began to wait; not saved
}

// want notes how many orders a decision has.
func (s *slots) want(at float64, orders int) {
	if s.wanted == 0 {
		s.since = at
	}
	s.wanted = orders
}

// placed notes that one of them got its slot. A wait of at most free counts as none.
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

// perToken returns the time in scaled seconds per further token, if that share of solves fails.
func (s *slots) perToken(scale, fails float64) float64 {
	const leastSolved = 0.1
	return s.gap / scale / max(leastSolved, 1-fails)
}
