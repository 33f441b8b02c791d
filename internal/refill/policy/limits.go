package policy

import "time"

// The values of Plan.Limit. Limit is the rule that keeps the wanted tokens or the orders below the
// forecast.
const (
	LimitNone   = ""
	LimitDepth  = "depth"  // the depth of the file, or of the warm window
	LimitCredit = "credit" // too many tokens expired in relation to the hits
	LimitProbe  = "probe"  // the last orders all failed, so orders are placed one at a time
	LimitIdle   = "idle"   // no request during idle_after
	LimitPaused = "paused"
)

const (
	// FailuresInARow is the number of consecutive failed solves after which a target's orders are
	// probes.
	FailuresInARow = 8
	// ProbeEvery is the time between two probes.
	ProbeEvery = 5 * time.Second

	// The credit must suffice for the wanted tokens even if all of them expire. Tokens that expire
	// soon, and orders that replace failing ones, do not count as wanted tokens. The number of all
	// tokens and orders is at most heldTimes times the number for which the credit suffices.
	heldTimes = 2
)

// limits are the limits of a target's wanted tokens and held tokens at one time.
type limits struct {
	floor, most int // floor: tokens kept even without demand; most: maximum number of tokens
	idle        bool
	adaptive    bool
	affordable  int // number of tokens for which the credit suffices; set only for an adaptive target
}

func (s *State) limits() limits {
	l := limits{floor: s.params.floor(s.warm), most: s.params.most(s.warm), adaptive: s.params.Adaptive}
	l.idle = s.params.IdleAfter > 0 && s.learned.silence(s.now) >= s.params.IdleAfter.Seconds()
	if l.adaptive {
		l.affordable = s.credit.affordable(s.now, s.learned.scale)
	}
	return l
}

// clamp limits the number of tokens wanted by the forecast, and returns the name of the limit that
// applies.
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

// held returns the maximum number of tokens and orders together. It is the depth or, if
// smaller, heldTimes times the number of tokens for which the credit suffices.
func (l *limits) held() int { return max(l.floor, min(l.most, heldTimes*l.affordable)) }
