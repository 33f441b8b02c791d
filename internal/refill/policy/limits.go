package policy

import "time"

// What keeps a target from wanting or ordering what its forecast asks.
const (
	LimitNone   = ""
	LimitDepth  = "depth"  // the cap of the file, or of the warm window
	LimitCredit = "credit" // too many tokens expired for the hits that came
	LimitProbe  = "probe"  // the last orders all failed: one at a time
	LimitIdle   = "idle"   // nobody asked for idle_after
	LimitPaused = "paused"
)

const (
	// FailuresInARow of a target turn its orders into probes, of which one is placed
	// per ProbeEvery.
	FailuresInARow = 8
	ProbeEvery     = 5 * time.Second

	// What is wanted is paid for by the credit, should all of it expire. Tokens on
	// their way out and orders that make up for failing ones come on top: of tokens and
	// orders there are never more than heldTimes what it pays for.
	heldTimes = 2
)

// limits is what a target may want and hold at one moment.
type limits struct {
	floor, most int // kept whatever the demand; the cap
	idle        bool
	adaptive    bool
	affordable  int // by the credit; of an adaptive target
}

// limits are those of this moment.
func (s *State) limits() limits {
	l := limits{floor: s.params.floor(s.warm), most: s.params.most(s.warm), idle: s.idle(), adaptive: s.params.Adaptive}
	if l.adaptive {
		l.affordable = s.credit.affordable(s.now, s.learned.scale)
	}
	return l
}

// idle: nobody asked for idle_after.
func (s *State) idle() bool {
	return s.params.IdleAfter > 0 && s.learned.silence(s.now) >= s.params.IdleAfter.Seconds()
}

// clamp brings what is asked to what is allowed.
func (l *limits) clamp(asked int) (want int, limit string) {
	switch {
	case asked <= l.floor:
		return l.floor, LimitNone
	case l.idle:
		return l.floor, LimitIdle
	case l.adaptive && min(asked, l.most) > l.affordable:
		return max(l.floor, l.affordable), LimitCredit
	case l.adaptive && asked >= l.most:
		return l.most, LimitDepth
	}
	return min(asked, l.most), LimitNone
}

// held is how many tokens and orders there may be: the cap, or heldTimes what the
// credit pays for.
func (l *limits) held() int { return max(l.floor, min(l.most, heldTimes*l.affordable)) }

// full is the limit of a target that holds the most it may.
func (s *State) full(held int) string {
	if held < s.params.most(s.warm) {
		return LimitCredit
	}
	return LimitDepth
}
