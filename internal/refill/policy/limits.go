package policy

import "time"

// The values of Plan.Limit: the rule that holds the wanted tokens or the orders below the forecast.
const (
	LimitNone   = ""
	LimitDepth  = "depth"  // the cap of the file, or of the warm window
	LimitCredit = "credit" // too many tokens expired for the hits that came
	LimitProbe  = "probe"  // the last orders all failed: one at a time
	LimitIdle   = "idle"   // no request for idle_after
	LimitPaused = "paused"
)

const (
	// FailuresInARow of a target turn its orders into probes.
	FailuresInARow = 8
	// ProbeEvery is the time between two probes.
	ProbeEvery = 5 * time.Second

	// The credit must pay for the wanted tokens, if all of them expire. Tokens that expire soon, and
	// orders that replace failing ones, are not wanted tokens. All tokens and orders together are at
	// most heldTimes the number that the credit pays for.
	heldTimes = 2
)

// limits bounds the wanted and held tokens of a target at one moment.
type limits struct {
	floor, most int // kept whatever the demand; the cap
	idle        bool
	adaptive    bool
	affordable  int // by the credit; of an adaptive target
}

func (s *State) limits() limits {
	l := limits{floor: s.params.floor(s.warm), most: s.params.most(s.warm), adaptive: s.params.Adaptive}
	l.idle = s.params.IdleAfter > 0 && s.learned.silence(s.now) >= s.params.IdleAfter.Seconds()
	if l.adaptive {
		l.affordable = s.credit.affordable(s.now, s.learned.scale)
	}
	return l
}

// clamp limits the tokens that the forecast asks for.
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

// held returns the most tokens and orders together: the cap, or heldTimes what the credit pays for.
func (l *limits) held() int { return max(l.floor, min(l.most, heldTimes*l.affordable)) }
