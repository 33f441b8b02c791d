package provider

import (
	"errors"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"poold/internal/backoff"
)

const (
	outageAfter = 5                // calls in a row without a proper answer
	outageFor   = 10 * time.Second // pause before each trial call of an outage
	backOffMost = 30 * time.Second
	// giveAgain is after how long Ready grants an unused turn again: the order that it was
	// granted to was not placed.
	giveAgain = 5 * time.Second
)

// newBreaker makes the breaker that counts calls without a proper answer. It reports to
// health when it opens and closes.
func newBreaker(h *health) *gobreaker.CircuitBreaker[answer] {
	return gobreaker.NewCircuitBreaker[answer](gobreaker.Settings{
		// It lets a call in strictly after its time-out, health at its own.
		Timeout:     outageFor - time.Millisecond,
		ReadyToTrip: func(n gobreaker.Counts) bool { return n.ConsecutiveFailures >= outageAfter },
		IsExcluded: func(err error) bool {
			var t *trouble
			return errors.As(err, &t) && (t.gaveUp || t.refused)
		},
		OnStateChange: func(_ string, _, to gobreaker.State) {
			switch to {
			case gobreaker.StateOpen:
				h.outageBegins(time.Now())
			case gobreaker.StateClosed:
				h.outageEnds()
			case gobreaker.StateHalfOpen:
			}
		},
	})
}

// health decides whether the service may be called at a given time. The zero
// value is a service that is well.
type health struct {
	mu       sync.Mutex // guards all; nothing is called while it is held
	account  pause
	outage   pause
	last     string    // why the latest call had no proper answer
	answered time.Time // when the latest call that got a proper answer was sent; zero = none

	busySince, busyUntil time.Time
	busyWhy              string
	backOff              time.Duration // the latest; 0 = the next fault is the first

	balance *float64 // replaced, never changed
	told    string   // last logged reason; "" = all is well
}

// noAnswer begins the reason of an outage.
const noAnswer = "no proper answer: "

// pause is a time without calls but a probe now and then.
type pause struct {
	on      bool
	adopted bool // outage: another replica met it
	since   time.Time
	turn    time.Time     // no call before
	every   time.Duration // from one turn to the next
	fault   *Error        // account: why
	action  string        // account: what met it
	given   time.Time     // account: when Ready granted the turn that no submit has used yet; zero = none

	polls    bool      // account: polls are answered all the same
	pollTurn time.Time // account: no poll before, unless its order is about to expire
}

// wait is how long it takes until Ready may grant a turn: the next one, or the last one again
// if it was not used.
func (p *pause) wait(at time.Time) time.Duration {
	wait := p.turn.Sub(at)
	if !p.given.IsZero() {
		wait = min(wait, p.given.Add(giveAgain).Sub(at))
	}
	return wait
}

// take uses up the turn if it has come.
func (p *pause) take(at time.Time) bool {
	if at.Before(p.turn) {
		return false
	}
	p.turn = at.Add(p.every)
	return true
}

// ready implements Client.Ready.
func (h *health) ready(at time.Time) (bool, time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	wait := h.busyUntil.Sub(at)
	for _, p := range []*pause{&h.account, &h.outage} {
		if p.on {
			wait = max(wait, p.wait(at))
		}
	}
	if wait > 0 {
		return false, wait
	}
	if h.outage.on {
		h.outage.take(at)
	}
	if h.account.on {
		h.account.take(at)
		h.account.given = at
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
		s.Kind, s.Reason, s.Until, s.Since = StateDown, h.account.fault.reason(), h.account.turn, h.account.since
		s.Code = h.account.fault.Code
	case h.outage.on:
		s.Kind, s.Reason, s.Until, s.Since = StateDown, noAnswer+h.last, h.outage.turn, h.outage.since
	case at.Before(h.busyUntil):
		s.Kind, s.Reason, s.Until = StateBusy, h.busyWhy, h.busyUntil
	}
	return s
}

// reason is an error without its class.
func (e *Error) reason() string {
	if e.Err != nil {
		return e.Code + ": " + e.Err.Error()
	}
	return e.Code
}

// enter asks for leave to call. During an account fault a submit gets it as the probe only,
// a poll always: PollTurn says when, and the order that it is for was paid.
func (h *health) enter(action string, at time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := &h.account
	switch {
	case !p.on || action == poll || action == probing:
		return nil
	case action == submit && !p.given.IsZero():
		p.given = time.Time{}
		return nil
	case action == submit && p.take(at):
		return nil
	}
	e := *p.fault
	e.Delay = p.turn.Sub(at)
	return &e
}

// outageFault is the error of a call that the breaker rejected.
func (h *health) outageFault(at time.Time) *Error {
	h.mu.Lock()
	defer h.mu.Unlock()
	// During a trial call the turn has passed and the next one is far away.
	return &Error{Class: Capacity, Code: "outage", Delay: max(h.outage.turn.Sub(at), time.Second)}
}

func (h *health) outageBegins(at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.outage = pause{on: true, since: at, turn: at.Add(outageFor), every: outageFor}
}

func (h *health) outageEnds() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.outage = pause{}
}

func (h *health) setBalance(n float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.balance = &n
}

// event is a finished call.
type event struct {
	action      string
	started, at time.Time // sent, and over
	trouble     *trouble  // why the answer was not a proper one; nil = it was
	fault       *Error    // nil: the call was granted, or the task is not ready
}

// change is a change of state for the log.
type change struct {
	down, account bool
	reason        string
}

// settle learns from a call and completes its fault's delay. It reports
// whether the provider was paused or freed since it was last asked.
func (h *health) settle(e event) (change, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case e.fault != nil && e.fault.Class == Account:
		h.pauseLocked(e)
	case e.trouble == nil && h.account.on:
		h.resumeLocked(e)
	}
	if e.trouble != nil {
		h.last = e.trouble.words()
	} else {
		h.answeredLocked(e.started)
	}
	switch {
	case e.fault == nil && e.action == submit:
		h.backOff = 0
		if !e.started.Before(h.busySince) {
			h.busyUntil = time.Time{}
		}
	case e.fault != nil && e.fault.Class == Capacity:
		h.slowLocked(e)
	}
	return h.changeLocked()
}

// pauseLocked begins the account's pause, or prolongs it. An answer that was
// under way when a ban began does not make the ban shorter.
func (h *health) pauseLocked(e event) {
	if h.account.on && e.started.Before(h.account.since) && h.account.turn.After(e.at.Add(e.fault.Delay)) {
		return
	}
	kept := *e.fault // the caller's copy is its own
	action, pollTurn := e.action, h.account.pollTurn
	if !h.account.on {
		pollTurn = e.at.Add(pollSoon)
	} else if h.account.action == submit {
		action = submit // only another submit ends it
	}
	h.account = pause{
		on: true, since: e.at, turn: e.at.Add(kept.Delay), every: probe,
		fault: &kept, action: action, pollTurn: pollTurn, polls: h.account.polls && e.action != poll,
	}
}

// resumeLocked ends the account fault if the same kind of call as met it is answered. A call
// that was sent before the fault proves nothing. A poll that is answered does not say that
// there is money again, but that polls are answered; an accepted submit does not say that its
// task can be collected.
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

// answeredLocked notes a proper answer. It ends an outage that another replica met; the
// breaker ends its own.
func (h *health) answeredLocked(started time.Time) {
	if started.After(h.answered) {
		h.answered = started
	}
	if h.outage.on && h.outage.adopted && started.After(h.outage.since) {
		h.outage = pause{}
	}
}

// slowLocked leaves the service alone for a while: for the fault's delay, and
// for longer with every fault that follows. Faults of one wave, sent before
// the first of them came back, count once.
func (h *health) slowLocked(e event) {
	f := e.fault
	base := f.Delay
	f.Delay += jitter(base)
	if t := e.trouble; t != nil && (t.gaveUp || e.action != submit && !t.refused) {
		return // the caller's doing, or a poll's own bad luck
	}
	if e.started.Before(h.busyUntil) {
		if until := e.at.Add(base); until.After(h.busyUntil) {
			h.busyUntil = until
		}
	} else {
		h.backOff = max(base, min(h.backOff*3/2, backOffMost))
		wait := min(h.backOff+jitter(h.backOff), max(base, backOffMost))
		h.busySince, h.busyUntil = e.at, e.at.Add(wait)
	}
	h.busyWhy = f.reason()
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
		now = "outage" // its reason changes with every call
	}
	if now == h.told {
		return c, false
	}
	h.told = now
	return c, true
}

// jitter is up to a fifth of d, so that replicas do not come back together.
func jitter(d time.Duration) time.Duration {
	return backoff.UpTo(d/5 + 1)
}
