package policy

import (
	"slices"
	"time"
)

// mostEvents is the maximum number of events of one kind that a tracker learns from one look.
const mostEvents = 10_000

// Tracker follows one target from look to look. Tracker's State learns from the counts in the stock,
// which cover all replicas. After the first request a tracker also has a shadow. A Tracker has no
// clock and no lock, and must be used by one goroutine at a time.
type Tracker struct {
	state    *State
	calendar calendar // the target's warm windows
	shadow   *shadow  // nil before the first request

	figures Figures // counts at the last look
	leads   []time.Duration
	looked  time.Time // time of the read of figures and leads; zero = no look yet
	asked   time.Time // time at which the last request was noticed; zero = no request yet
	// concurrency is the provider's maximum number of orders in flight, as of the last look.
	concurrency int

	loaded  bool // whether the saved State was read
	unsaved bool // whether there was a request since the last save
	savedAt time.Time
}

// NewTracker returns a Tracker that has learned nothing yet.
func NewTracker(p Params, windows []Warm) *Tracker {
	return &Tracker{state: NewState(p), calendar: calendar{windows: windows}}
}

// Resume prepares the tracker after a time in which another replica watched the target. The tracker
// then loads the state that the other replica saved, ignores all events before the next look, and
// begins a new shadow.
func (t *Tracker) Resume() { t.loaded, t.looked, t.shadow = false, time.Time{}, nil }

// Pace tells the tracker the poll times of the provider that would get the next order.
func (t *Tracker) Pace(firstPoll, interval time.Duration) {
	p := t.state.params
	if p.FirstPoll != firstPoll || p.PollInterval != interval {
		p.FirstPoll, p.PollInterval = firstPoll, interval
		t.state.Change(p)
	}
}

// Plan returns the policy's plan for the given time. The plan includes the target's warm windows.
func (t *Tracker) Plan(at time.Time) Plan { return t.calendar.plan(at, t.state) }

// Decide returns what to order. The stock must have been read with the lead time of the plan.
func (t *Tracker) Decide(at time.Time, p Plan, s *Stock) Decision { return t.state.Decide(at, p, s) }

// Placed adds an order that was placed.
func (t *Tracker) Placed(at time.Time) { t.state.Placed(at) }

// Worth returns the worth of one more token, as computed by State.Worth. Worth uses the adaptive
// State of the target or of the target's shadow. If the token is needed for `min` or for a warm
// window, Worth assumes that a caller will use the token.
func (t *Tracker) Worth(n int) float64 {
	if n < t.state.params.floor(t.state.warm) {
		return t.state.params.MaxWaste
	}
	if learner := t.learner(); learner != nil {
		return learner.Worth(n)
	}
	return t.state.Worth(n)
}

// Lasts returns how long n tokens last, as computed by State.Lasts.
func (t *Tracker) Lasts(n int) time.Duration { return t.state.Lasts(n) }

// Credit returns how many tokens may still expire before an adaptive target keeps only `min` tokens;
// 0 for a fixed target.
func (t *Tracker) Credit() float64 { return t.state.Credit() }

// Shadow returns the comparison with the other way of refilling, or nil if there were too few
// requests.
func (t *Tracker) Shadow() *Shadow {
	if t.shadow == nil {
		return nil
	}
	return t.shadow.summary(t.looked)
}

// Learn learns from the events since the last look. The argument `concurrency` is the provider's
// maximum number of orders in flight.
func (t *Tracker) Learn(at time.Time, s *Stock, concurrency int) {
	now := s.Figures
	// Counts decrease if Redis has lost its data.
	lost := now.Requests < t.figures.Requests || now.Solved < t.figures.Solved
	if lost || t.looked.IsZero() {
		t.figures = now // the events since the last look are unknown
	}
	if lost && t.shadow != nil {
		t.shadow.begin(at)
	}
	then := t.figures
	requests := int(min(now.Requests-then.Requests, mostEvents))
	request := func(n int) { t.state.Request(at, int64(n) < now.Hits-then.Hits) }
	if t.shadow == nil {
		for n := range requests {
			request(n)
		}
	} else {
		t.shadow.learn(t, concurrency, at, requests, s, request)
	}
	for i := min(int(now.Solved-then.Solved), len(s.Leads)) - 1; i >= 0; i-- {
		t.state.Landed(at, s.Leads[i])
	}
	for range min(now.Failed-then.Failed, mostEvents) {
		t.state.Failed(at)
	}
	if expired := now.Expired - then.Expired; expired > 0 {
		t.state.Expired(at, int(expired))
	}
	if !slices.Equal(s.Leads, t.leads) {
		t.leads = s.Leads
		t.state.Learn(at, s.Leads)
	}
	if requests > 0 {
		t.unsaved, t.asked = true, at
	}
	t.figures, t.looked, t.concurrency = now, at, concurrency
}

// learner returns the adaptive State of the target or of its shadow; nil if the shadow has no table
// now.
func (t *Tracker) learner() *State {
	switch {
	case t.state.params.Adaptive:
		return t.state
	case t.shadow == nil || !t.shadow.loaded():
		return nil
	}
	return t.shadow.adaptive()
}

// active reports whether the last request is recent enough for a shadow.
func (t *Tracker) active(at time.Time) bool {
	return !t.asked.IsZero() && at.Sub(t.asked) < shadowLife
}

// WantsSaved reports whether the caller must call Load with the saved state. The call of Load is
// necessary once, and again when the shadow of a fixed target begins or needs its table. WantsSaved
// itself creates the shadow of an adaptive target, because that shadow needs no saved state.
func (t *Tracker) WantsSaved(at time.Time) bool {
	active := t.active(at)
	if active && t.shadow == nil && t.state.params.Adaptive {
		t.shadow = newShadow(t, t.concurrency, at, nil)
	}
	return !t.loaded && t.state.params.remembers() || active && (t.shadow == nil || !t.shadow.loaded())
}

// Load restores the saved state; nil means that no state was saved. If the error is ErrSavedVersion
// or ErrSavedCorrupt, the tracker learns from the start.
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
	case !t.active(at):
	case t.shadow == nil:
		t.shadow = newShadow(t, t.concurrency, at, restore)
	case !t.shadow.loaded():
		t.shadow.load(restore)
	}
	return err
}

// Unsaved returns the state to save; nil if there is nothing to save. There is something to save if
// at least the given interval has passed since the last save, and a request has arrived since that
// save. A state that has only learned from silence is saved if the interval is 0 or the shadow is
// about to free its table.
func (t *Tracker) Unsaved(at time.Time, interval time.Duration) ([]byte, error) {
	learner := t.learner()
	if t.unloads(at) {
		interval = 0
	}
	if !t.loaded || learner == nil || at.Sub(t.savedAt) < interval {
		return nil, nil
	}
	if !t.unsaved && (interval > 0 || learner.learned.sampled <= unixSeconds(t.savedAt)) {
		return nil, nil
	}
	return learner.save()
}

// Saved records that the caller has stored the result of Unsaved. The caller must pass the same
// time as in the call of Unsaved. If the last request is older than shadowLife, a fixed target's
// shadow frees its table.
func (t *Tracker) Saved(at time.Time) {
	t.unsaved, t.savedAt = false, at
	if t.unloads(at) {
		t.shadow.unload()
	}
}

// unloads reports whether the shadow can free its table after the table is saved.
func (t *Tracker) unloads(at time.Time) bool {
	return !t.state.params.Adaptive && t.learner() != nil && !t.active(at)
}
