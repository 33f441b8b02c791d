package policy

import (
	"time"
)

// calendar computes how many ready tokens the warm windows require.
type calendar struct {
	windows []Warm
	next    []occasion // current or next run of each element of windows

	runs bool          // whether a window is running or begins within the lead time
	lead time.Duration // longest lead time since runs became true
}

// occasion is one run of a window in the file.
type occasion struct{ asked, from, until time.Time }

func (c *calendar) plan(at time.Time, s *State) Plan {
	warm, change := c.tokensAt(at, s.warmLead())
	p := s.Plan(at, warm)
	p.Look = min(p.Look, change)
	return p
}

// tokensAt returns how many ready tokens the warm windows require, and how long this number is
// valid. A window counts only if it runs or begins within the lead time. A nil calendar has no
// windows.
func (c *calendar) tokensAt(at time.Time, lead time.Duration) (tokens int, change time.Duration) {
	change = Never
	if c == nil {
		return 0, change
	}
	// Once orders for a window have begun, they continue even if the first solves shorten the lead
	// time.
	if c.runs {
		lead = max(lead, c.lead)
	}
	if c.next == nil {
		c.next = make([]occasion, len(c.windows))
	}
	for i, w := range c.windows {
		o := &c.next[i]
		// Finding the next run is expensive, so the result is kept. If the clock was set back, the
		// next run is computed again.
		if !at.Before(o.until) || at.Before(o.asked) {
			o.asked = at
			o.from, o.until = w.Next(at)
		}
		if in := o.from.Sub(at); in > lead {
			change = min(change, in-lead)
		} else {
			tokens, change = max(tokens, w.Tokens), min(change, o.until.Sub(at))
		}
	}
	c.runs, c.lead = tokens > 0, lead
	return tokens, change
}
