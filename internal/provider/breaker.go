package provider

import (
	"sync"
	"time"

	"poold/internal/backoff"
)

const (
	outageAfter = 5                // an outage begins after this number of consecutive calls without a proper answer
	outageFor   = 10 * time.Second // pause before each trial call during an outage
	maxBackoff  = 30 * time.Second
	// Ready grants an unused turn again after regrantAfter. A turn stays unused if the caller placed
	// no order.
	regrantAfter = 5 * time.Second
)

// health is the circuit breaker of one account. It decides whether the client may call the service
// at a given time. The zero value has no fault.
type health struct {
	mu       sync.Mutex // guards all fields
	account  pause
	outage   pause
	failures int       // number of consecutive calls without a proper answer
	last     string    // why the latest failed call had no proper answer
	answered time.Time // when the client sent the latest call that got a proper answer; zero = no such call

	busySince, busyUntil time.Time
	busyReason           string
	backoff              time.Duration // the latest backoff; 0 = the next fault begins a new series of faults

	balance *float64 // balance that was read last; the value behind the pointer never changes
	logged  string   // the last reason that was logged; "" = no fault
}

// noAnswer is the prefix of the reason for an outage.
const noAnswer = "no proper answer: "

// pause is a period during which only one call is made in each turn. A turn is an interval of fixed
// length.
type pause struct {
	on      bool
	adopted bool          // for an outage: this replica has not observed the outage, only other replicas have
	began   time.Time     // when the fault was first observed
	since   time.Time     // when the fault began or was last observed
	turn    time.Time     // start of the next turn
	every   time.Duration // length of a turn
	granted time.Time     // when Ready granted a turn that is still unused; zero = no such turn
	fault   *Error        // for an account fault: the cause
	action  string        // for an account fault: the action of the failed call

	polls    bool      // for an account fault: the service still answers polls
	pollTurn time.Time // for an account fault: time of the next poll; an order that is about to expire may be polled earlier
}

// wait returns the duration from the given time until Ready may grant a turn. Ready may
// grant the next turn at its start, or an unused turn again after regrantAfter, whichever comes
// first.
func (p *pause) wait(at time.Time) time.Duration {
	wait := p.turn.Sub(at)
	if !p.granted.IsZero() {
		wait = min(wait, p.granted.Add(regrantAfter).Sub(at))
	}
	return wait
}

// useTurn uses up the turn that Ready granted. If Ready granted no turn, but the time for the next
// turn has come, useTurn uses up that turn. Otherwise useTurn returns false.
func (p *pause) useTurn(at time.Time) bool {
	switch {
	case !p.granted.IsZero():
		p.granted = time.Time{}
		return true
	case at.Before(p.turn):
		return false
	}
	p.turn = at.Add(p.every)
	return true
}

// ready implements Client.Ready.
func (h *health) ready(at time.Time) (bool, time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	pauses := []*pause{&h.account, &h.outage}
	wait := h.busyUntil.Sub(at)
	for _, p := range pauses {
		if p.on {
			wait = max(wait, p.wait(at))
		}
	}
	if wait > 0 {
		return false, wait
	}
	for _, p := range pauses {
		if p.on {
			p.granted, p.turn = at, at.Add(p.every)
		}
	}
	return true, 0
}

// state implements Client.State.
func (h *health) state(at time.Time) State {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := State{Kind: StateOK, Balance: h.balance}
	switch {
	case h.account.on:
		s.Kind, s.Reason, s.Until, s.Since = StateDown, h.account.fault.reason(), h.account.turn, h.account.began
		s.Code = h.account.fault.Code
	case h.outage.on:
		s.Kind, s.Reason, s.Until, s.Since = StateDown, noAnswer+h.last, h.outage.turn, h.outage.began
	case at.Before(h.busyUntil):
		s.Kind, s.Reason, s.Until = StateBusy, h.busyReason, h.busyUntil
	}
	return s
}

// reason returns the text of an error without its class.
func (e *Error) reason() string {
	if e.Err != nil {
		return e.Code + ": " + e.Err.Error()
	}
	return e.Code
}

// enter returns nil if the client may make a call, or else an error with the reason. An
// operator's probe is always allowed.
//
//   - During an account fault, one submission is allowed in each turn. Polls are allowed, because
//     the orders are paid; PollTurn limits their rate.
//   - During an outage that this client observed, one call of any kind is allowed in each turn.
//     During an outage that only other replicas observed, all calls are allowed, because this
//     replica may still reach the service.
//   - A report is allowed only while there is neither an account fault nor an outage.
func (h *health) enter(action string, at time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if action == probing {
		return nil
	}
	if p := &h.account; p.on && action != poll && (action != submit || !p.useTurn(at)) {
		e := *p.fault
		e.Delay = p.turn.Sub(at)
		return &e
	}
	p := &h.outage
	switch {
	case !p.on:
	case action == report, !p.adopted && !p.useTurn(at):
		return &Error{Class: Capacity, Code: "outage", Delay: max(p.turn.Sub(at), time.Second)}
	case action == submit:
		p.granted = time.Time{} // the call uses up the granted turn, even in an adopted outage
	}
	return nil
}

func (h *health) setBalance(n float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.balance = &n
}

// event describes a finished call.
type event struct {
	action      string
	started, at time.Time // start and end of the call
	trouble     *trouble  // nil = the service gave a proper answer
	fault       *Error    // nil = the call succeeded, or the task is not ready
}

// change describes a change of the provider's state, for the log.
type change struct {
	down, account bool
	reason        string
}

// settle updates the state after a call, and sets the delay of the call's fault. It returns true if
// the provider has gone down or up since the last logged change.
func (h *health) settle(e event) (change, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case e.fault != nil && e.fault.Class == Account:
		h.pauseLocked(e)
	case e.trouble == nil && h.account.on:
		h.resumeLocked(e)
	}
	h.countLocked(e)
	switch {
	case e.fault == nil && e.action == submit:
		h.backoff = 0
		if !e.started.Before(h.busySince) {
			h.busyUntil = time.Time{}
		}
	case e.fault != nil && e.fault.Class == Capacity:
		h.slowLocked(e)
	}
	return h.changeLocked()
}

// pauseLocked begins or prolongs the pause for an account fault. If a call was sent before a ban
// began, its answer does not shorten the ban.
func (h *health) pauseLocked(e event) {
	if h.account.on && e.started.Before(h.account.since) && h.account.turn.After(e.at.Add(e.fault.Delay)) {
		return
	}
	kept := *e.fault // a copy, because the caller owns the original
	began, action, pollTurn := h.account.began, e.action, h.account.pollTurn
	if !h.account.on {
		began, pollTurn = e.at, e.at.Add(pollSoon)
	} else if h.account.action == submit {
		action = submit // only a successful submission ends this fault
	}
	h.account = pause{
		on: true, began: began, since: e.at, turn: e.at.Add(kept.Delay), every: probe,
		fault: &kept, action: action, pollTurn: pollTurn, polls: h.account.polls && e.action != poll,
	}
}

// resumeLocked ends the account fault after a proper answer that reports no account fault. There are
// three exceptions:
//
//   - A call that was sent before the fault says nothing about the fault.
//   - An answered poll shows that the service answers polls, but not that it accepts submissions.
//   - An accepted submission does not show that its task can be polled.
func (h *health) resumeLocked(e event) {
	p := &h.account
	switch {
	case e.started.Before(p.since):
	case e.action == poll && p.action == submit:
		p.polls = true
	case e.action == submit && p.action == poll:
	default:
		h.account = pause{}
	}
}

// countLocked counts consecutive calls without a proper answer, and begins and ends the outage. It
// ignores calls that were sent before the outage began. It also ignores reports, because some
// services have no call for reports.
func (h *health) countLocked(e event) {
	later := e.started.After(h.outage.since)
	t := e.trouble
	if t == nil {
		if e.started.After(h.answered) {
			h.answered = e.started
		}
		if e.action != report {
			h.failures = 0
		}
		if h.outage.on && later {
			h.outage = pause{}
		}
		return
	}
	h.last = t.words()
	if t.gaveUp || t.refused || e.action == report {
		return
	}
	h.failures++
	met := h.outage.on && !h.outage.adopted
	if met && later || !met && h.failures >= outageAfter {
		began := e.at
		if h.outage.on {
			began = h.outage.began
		}
		h.outage = pause{on: true, began: began, since: e.at, turn: e.at.Add(outageFor), every: outageFor}
	}
}

// slowLocked marks the provider as busy until the delay of the fault has passed. Each further fault
// increases the delay, if its call was sent after the previous delay had ended. So concurrent calls
// count as one fault.
func (h *health) slowLocked(e event) {
	f := e.fault
	base := f.Delay
	f.Delay += jitter(base)
	if t := e.trouble; t != nil && (t.gaveUp || e.action != submit && !t.refused) {
		return // the caller cancelled, or the call has no effect on submissions
	}
	if e.started.Before(h.busyUntil) {
		if until := e.at.Add(base); until.After(h.busyUntil) {
			h.busyUntil = until
		}
	} else {
		h.backoff = max(base, min(h.backoff*3/2, maxBackoff))
		wait := min(h.backoff+jitter(h.backoff), max(base, maxBackoff))
		h.busySince, h.busyUntil = e.at, e.at.Add(wait)
	}
	h.busyReason = f.reason()
	if e.action == submit {
		f.Delay = h.busyUntil.Sub(e.at)
	}
}

func (h *health) changeLocked() (change, bool) {
	var c change
	switch {
	case h.account.on:
		c = change{true, true, h.account.fault.reason()}
	case h.outage.on:
		c = change{true, false, h.last}
	}
	now := c.reason
	if c.down && !c.account {
		now = "outage" // a constant, because the reason for an outage differs from call to call
	}
	if now == h.logged {
		return c, false
	}
	h.logged = now
	return c, true
}

// jitter returns a random duration of at most a fifth of d, so that replicas do not retry at the
// same moment.
func jitter(d time.Duration) time.Duration {
	return backoff.UpTo(d/5 + 1)
}
