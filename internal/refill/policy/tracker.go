package policy

import (
	"slices"
	"time"
)

// mostEvents is the maximum number of events of one kind that a tracker learns from one look.
const mostEvents = 10_000

// Tracker follows one target from look to look. Tracker's State learns from the counts in the stock,
// which cover all replicas. A Tracker has no clock and no lock, and must be used by one goroutine at
// a time.
type Tracker struct {
	state    *State
	calendar calendar // the target's warm windows

	figures Figures // counts at the last look
	leads   []time.Duration
	looked  time.Time // time of the read of figures and leads; zero = no look yet

	loaded  bool // whether the saved State was read
	unsaved bool // whether there was a request since the last save
	savedAt time.Time
}

// NewTracker returns a Tracker that has learned nothing yet.
func NewTracker(p Params, windows []Warm) *Tracker {
	return &Tracker{state: NewState(p), calendar: calendar{windows: windows}}
}

// Resume prepares the tracker after a time in which another replica watched the target. The tracker
// then loads the state that the other replica saved, and ignores all events before the next look.
func (t *Tracker) Resume() { t.loaded, t.looked = false, time.Time{} }

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

// Worth returns the worth of one more token, as computed by State.Worth. If the token is needed for
// `min` or for a warm window, Worth assumes that a caller will use the token.
func (t *Tracker) Worth(n int) float64 {
	if n < t.state.params.floor(t.state.warm) {
		return t.state.params.MaxWaste
	}
	return t.state.Worth(n)
}

// Lasts returns how long n tokens last, as computed by State.Lasts.
func (t *Tracker) Lasts(n int) time.Duration { return t.state.Lasts(n) }

// Credit returns how many tokens may still expire before an adaptive target keeps only `min` tokens;
// 0 for a fixed target.
func (t *Tracker) Credit() float64 { return t.state.Credit() }

// Learn learns from the events since the last look.
func (t *Tracker) Learn(at time.Time, s *Stock) {
	now := s.Figures
	// Counts decrease if Redis has lost its data.
	if now.Requests < t.figures.Requests || now.Solved < t.figures.Solved || t.looked.IsZero() {
		t.figures = now // the events since the last look are unknown
	}
	then := t.figures
	requests := int(min(now.Requests-then.Requests, mostEvents))
	for n := range requests {
		t.state.Request(at, int64(n) < now.Hits-then.Hits)
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
	t.unsaved = t.unsaved || requests > 0
	t.figures, t.looked = now, at
}

// WantsSaved reports whether the caller must call Load with the saved state.
func (t *Tracker) WantsSaved() bool { return !t.loaded && t.state.params.remembers() }

// Load restores the saved state; nil means that no state was saved. If the error is ErrSavedVersion
// or ErrSavedCorrupt, the tracker learns from the start.
func (t *Tracker) Load(at time.Time, saved []byte) (err error) {
	t.loaded = true
	t.state = NewState(t.state.params)
	if saved != nil {
		t.state, err = Restore(t.state.params, saved, at)
	}
	return err
}

// Unsaved returns the state to save; nil if there is nothing to save. There is something to save if
// at least the given interval has passed since the last save, and a request has arrived since that
// save. A state that has only learned from silence is saved if the interval is 0.
func (t *Tracker) Unsaved(at time.Time, interval time.Duration) ([]byte, error) {
	if !t.loaded || at.Sub(t.savedAt) < interval {
		return nil, nil
	}
	if !t.unsaved && (interval > 0 || t.state.learned.sampled <= unixSeconds(t.savedAt)) {
		return nil, nil
	}
	return t.state.save()
}

// Seen returns the counts of the last look. A saved state belongs to them.
func (t *Tracker) Seen() Figures { return t.figures }

// SetSeen makes the next Learn learn from the events since the given counts, which belong to the state that
// Load restored.
func (t *Tracker) SetSeen(at time.Time, f Figures) { t.figures, t.looked = f, at }

// Saved records that the caller has stored the result of Unsaved. The caller must pass the same
// time as in the call of Unsaved.
func (t *Tracker) Saved(at time.Time) { t.unsaved, t.savedAt = false, at }
