package policy

import (
	"time"
)

// calendar says how many tokens are to be ready because of warm windows.
type calendar struct {
	windows []Warm    // of the file
	posted  []Window  // made by POST, as they were when read
	read    time.Time // when posted was read

	next []occasion // of windows: the one that runs, or else the next

	runs bool          // some window does, or is about to
	lead time.Duration // since it is about to: the longest lead
}

// occasion is one time at which a window of the file runs.
type occasion struct{ asked, from, until time.Time }

// plan is the State's at that moment, with these windows.
func (c *calendar) plan(at time.Time, s *State) Plan {
	warm, change := c.at(at, s.warmLead())
	p := s.Plan(at, warm)
	p.Look = min(p.Look, change)
	return p
}

// at says how many tokens are wanted ready by windows that run or begin within
// lead, and how long that holds. A nil calendar has no windows.
func (c *calendar) at(at time.Time, lead time.Duration) (tokens int, change time.Duration) {
	change = Never
	if c == nil {
		return 0, change
	}
	// What is being ordered for goes on, also where the first solves show that it
	// was begun early.
	if c.runs {
		lead = max(lead, c.lead)
	}
	consider := func(wanted int, in, left time.Duration) {
		switch {
		case left <= 0: // it is over
		case in > lead:
			change = min(change, in-lead)
		default:
			tokens, change = max(tokens, wanted), min(change, left)
		}
	}
	if c.next == nil {
		c.next = make([]occasion, len(c.windows))
	}
	for i, w := range c.windows {
		o := &c.next[i]
		// To find the next one is dear; a clock that was put back asks again too.
		if !at.Before(o.until) || at.Before(o.asked) {
			o.asked = at
			o.from, o.until = w.Next(at)
		}
		consider(w.Tokens, o.from.Sub(at), o.until.Sub(at))
	}
	for _, w := range c.posted {
		since := at.Sub(c.read)
		consider(w.Tokens, w.In-since, w.Left-since)
	}
	c.runs, c.lead = tokens > 0, lead
	return tokens, change
}
