package policy

const (
	// In the mean of the waits, an order that waited for a slot has the weight 1/slotWaits. An order
	// that got a slot immediately has the weight 1/slotFree, because a free slot says little about
	// later slots.
	slotWaits = 16
	slotFree  = 128
)

// slots estimates how soon this target gets its next slot at the provider. Targets compete for slots.
// Times are in seconds.
type slots struct {
	gap    float64 // mean time between two orders while orders wait for slots
	wanted int     // orders that are decided but not placed; not saved
	since  float64 // time since which the next wanted order waits; not saved
}

// want records the number of orders in a decision.
func (s *slots) want(at float64, orders int) {
	if s.wanted == 0 {
		s.since = at
	}
	s.wanted = orders
}

// placed records that a wanted order got its slot. A wait of at most maxFree counts as
// no wait.
func (s *slots) placed(at, maxFree float64) {
	if s.wanted == 0 {
		return
	}
	if waited := at - s.since; waited > maxFree {
		s.gap += (waited - s.gap) / slotWaits
	} else {
		s.gap -= s.gap / slotFree
	}
	s.wanted--
	s.since = at
}

// perToken returns the mean time between two orders that land, in scaled seconds. The argument
// fails is the share of failing solves.
func (s *slots) perToken(scale, fails float64) float64 {
	const leastSolved = 0.1
	return s.gap / scale / max(leastSolved, 1-fails)
}
