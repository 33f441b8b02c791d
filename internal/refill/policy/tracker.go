package policy

import (
	"slices"
	"time"
)

// mostEvents of one kind are learned from between two looks: more of them say no more
// than that there were very many.
const mostEvents = 10_000

// Tracker follows one target from look to look. Its State learns from what the stock
// says, whose counts are those of all replicas; its shadow, once somebody has asked,
// lives through the same. It has no clock and no lock: one goroutine at a time uses it.
type Tracker struct {
	state    *State
	calendar calendar // its warm windows
	shadow   *shadow  // nil before anybody asks

	figures Figures // at the last look
	leads   []time.Duration
	looked  time.Time // when figures and leads were read; zero = not yet
	asked   time.Time // when the last request was noticed; zero = none yet
	// concurrency is how many orders the providers took at once, at the last look.
	concurrency int

	loaded  bool // what an earlier run saved has been read
	unsaved bool // something was learned since
	savedAt time.Time
}

// NewTracker makes one that has seen nothing.
func NewTracker(p Params, windows []Warm) *Tracker {
	return &Tracker{state: NewState(p), calendar: calendar{windows: windows}}
}

// Resume goes on after others have looked for a while: what they saved is to be loaded,
// what happened until the next look is not learned, and a shadow begins anew.
func (t *Tracker) Resume() { t.loaded, t.looked, t.shadow = false, time.Time{}, nil }

// Pace takes notice of another provider's.
func (t *Tracker) Pace(firstPoll, interval time.Duration) {
	p := t.state.params
	if p.FirstPoll != firstPoll || p.PollInterval != interval {
		p.FirstPoll, p.PollInterval = firstPoll, interval
		t.state.Change(p)
	}
}

// Plan says what the policy wants now, with the warm windows of the target.
func (t *Tracker) Plan(at time.Time) Plan { return t.calendar.plan(at, t.state) }

// Decide says what to order, given the stock as looked at with the plan's Lead.
func (t *Tracker) Decide(at time.Time, p Plan, s *Stock) Decision { return t.state.Decide(at, p, s) }

// Placed notes an order.
func (t *Tracker) Placed(at time.Time) { t.state.Placed(at) }

// Worth is what one more token is worth with n ahead of it, as of the last look: as
// State.Worth has it, of the adaptive one of the target's State and its shadow. One
// that `min` or a warm window keeps is needed for sure.
func (t *Tracker) Worth(n int) float64 {
	switch learner := t.learner(); {
	case n < t.state.params.floor(t.state.warm):
		return t.state.params.MaxWaste
	case learner != nil:
		return learner.Worth(n)
	default:
		return t.state.Worth(n)
	}
}

// Credit is how many tokens may still expire before an adaptive target keeps only its
// `min`; 0 for a fixed one.
func (t *Tracker) Credit() float64 { return t.state.Credit() }

// Shadow is what another way of refilling would have done; nil where too little is
// known.
func (t *Tracker) Shadow() *Shadow {
	if t.shadow == nil {
		return nil
	}
	return t.shadow.summary(t.looked, t.figures)
}

// Learn takes notice of what has happened since the last look. concurrency is how many
// orders the providers take at once.
func (t *Tracker) Learn(at time.Time, s *Stock, concurrency int) {
	now, then := s.Figures, t.figures
	requests, hits := 0, now.Hits-then.Hits
	request := func(n int) { t.state.Request(at, int64(n) < hits) }
	// Counts that went back are those of a Redis that lost its data.
	lost := now.Requests < then.Requests || now.Solved < then.Solved
	known := !t.looked.IsZero() && !lost
	if known {
		requests = int(min(now.Requests-then.Requests, mostEvents))
	}
	if t.shadow == nil {
		for n := range requests {
			request(n)
		}
	} else {
		if lost {
			t.shadow.begin(at, now)
		}
		t.shadow.learn(t, concurrency, at, requests, s, request)
	}
	if known {
		for i := min(int(now.Solved-then.Solved), len(s.Leads)) - 1; i >= 0; i-- {
			t.state.Landed(at, s.Leads[i])
		}
		for range min(now.Failed-then.Failed, mostEvents) {
			t.state.Failed(at)
		}
		if expired := now.Expired - then.Expired; expired > 0 {
			t.state.Expired(at, int(expired))
		}
	}
	if !slices.Equal(s.Leads, t.leads) {
		t.leads = s.Leads
		t.state.Learn(at, s.Leads)
	}
	if requests > 0 {
		t.unsaved, t.asked = true, at
	}
	t.calendar.posted, t.calendar.read = s.Windows, at
	t.figures, t.looked, t.concurrency = now, at, concurrency
}

// learner is the State that learns what happens next: the adaptive one of the target's
// and its shadow's, nil where that is the shadow's and not there.
func (t *Tracker) learner() *State {
	switch {
	case t.state.params.Adaptive:
		return t.state
	case t.shadow == nil || !t.shadow.loaded():
		return nil
	}
	return t.shadow.adaptive.state
}

// asksOn reports whether somebody has asked lately enough for a shadow.
func (t *Tracker) asksOn(at time.Time) bool {
	return !t.asked.IsZero() && at.Sub(t.asked) < shadowLife
}

// WantsSaved reports whether Load is to be called with what was saved last: once, and
// again where a shadow begins or is needed again. The shadow of an adaptive target has
// nothing to be loaded and begins here.
func (t *Tracker) WantsSaved(at time.Time) bool {
	lively := t.asksOn(at)
	if lively && t.shadow == nil && t.state.params.Adaptive {
		t.shadow = newShadow(t, t.concurrency, at, nil)
	}
	return !t.loaded && t.state.params.remembers() || lively && (t.shadow == nil || !t.shadow.loaded())
}

// Load brings back what was learned and saved, nil for nothing. What cannot be read is
// learned anew, and the error says so: ErrSavedVersion or ErrSavedCorrupt.
func (t *Tracker) Load(at time.Time, saved []byte) (err error) {
	restore := func(p Params) *State {
		if saved == nil {
			return NewState(p)
		}
		var s *State
		s, err = Restore(p, saved, at)
		return s
	}
	if !t.loaded && t.state.params.remembers() {
		t.state = restore(t.state.params)
	}
	t.loaded = true
	switch {
	case !t.asksOn(at):
	case t.shadow == nil:
		t.shadow = newShadow(t, t.concurrency, at, restore)
	case !t.shadow.loaded():
		t.shadow.load(restore)
	}
	return err
}

// Unsaved is what is to be saved, if the last save is at least so long ago and somebody
// has asked since; with 0, also what silence has taught. Nil where there is nothing.
func (t *Tracker) Unsaved(at time.Time, every time.Duration) ([]byte, error) {
	learner := t.learner()
	if !t.loaded || learner == nil || at.Sub(t.savedAt) < every {
		return nil, nil
	}
	if !t.unsaved && (every > 0 || learner.learned.sampled <= unixSeconds(t.savedAt)) {
		return nil, nil
	}
	return learner.save()
}

// Saved takes notice that what Unsaved answered at that time has been kept.
func (t *Tracker) Saved(at time.Time) { t.unsaved, t.savedAt = false, at }

// Rests reports whether nobody has asked for so long that the shadow need not know what
// it has learned. Unload lets go of it, once it is saved.
func (t *Tracker) Rests(at time.Time) bool {
	return !t.state.params.Adaptive && t.learner() != nil && !t.asksOn(at)
}

// Unload lets go of what only a shadow knows.
func (t *Tracker) Unload() { t.shadow.unload() }
