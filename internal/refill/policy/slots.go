package policy

const (
	// An order that had to wait for a slot is believed as one of slotWaits, one that
	// got its slot at once as one of slotFree: that some were free says little of how
	// soon the next ones are.
	slotWaits = 16
	slotFree  = 128
)

// slots is how soon the provider takes the next order, as this target finds it:
// others may hold the provider's slots as well. Times are in seconds.
type slots struct {
	gap    float64 // from one order to the next while more are wanted than are taken
	wanted int     // orders decided upon and not placed so far; not saved
	since  float64 // when the next one of them began to wait; not saved
}

// want notes how many orders were decided upon.
func (s *slots) want(at float64, orders int) {
	if s.wanted == 0 {
		s.since = at
	}
	s.wanted = orders
}

// placed notes that one of them got its slot; less than free is no wait.
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

// perToken is how long it takes, in scaled seconds, to have one more token solved where
// slots are few and that share of solves fails.
func (s *slots) perToken(scale, fails float64) float64 {
	const leastSolved = 0.1
	return s.gap / scale / max(leastSolved, 1-fails)
}
