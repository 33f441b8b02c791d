package refill

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"poold/internal/next/pool"
	"poold/internal/refill/policy"
	"poold/internal/targets"
)

// The states of a target.
const (
	OK      = "ok"
	Paused  = "paused"  // by the file or an operator: nothing is bought
	Starved = "starved" // the target wants tokens and cannot order them now
	Budget  = "budget"  // the target wants tokens, and a budget is used up
	Refused = "refused" // the provider rejects the target's parameters
)

// Status is what the last decision about a target found, at whichever replica. Redis keeps it as JSON.
type Status struct {
	Want     int           `json:"want"`
	State    string        `json:"state"`
	Reason   string        `json:"reason,omitempty"`
	Lead     time.Duration `json:"lead"` // with which the policy plans
	Until    time.Time     `json:"until,omitzero"`
	Forecast float64       `json:"forecast,omitempty"`
	Risk     float64       `json:"risk,omitempty"`
	Limit    string        `json:"limit,omitempty"`
	Credit   float64       `json:"credit,omitempty"`
	Warm     int           `json:"warm,omitempty"`
	Failing  bool          `json:"failing,omitempty"`
}

// StatusOf returns the status of a target from its counts. A pause and a brake are current; the rest is
// what the last decision noted.
func StatusOf(t *targets.Target, c *pool.Counts) Status {
	s := Status{Want: t.Depth, State: OK}
	if t.Refill == targets.RefillAdaptive {
		s.Want = t.Min
	}
	if c.Status != "" {
		_ = json.Unmarshal([]byte(c.Status), &s) // a status of another form keeps the defaults
	}
	switch b := c.Brake; {
	case t.Halted() != "":
		s.Want, s.State, s.Reason = 0, Paused, t.Halted()
	case b.IsPaused():
		s.Want, s.State, s.Reason, s.Until = 0, Paused, b.Paused, b.Resumes
	case b.Kind == string(pool.Hopeless) && b.Brakes():
		s.State, s.Reason, s.Until = Refused, b.Reason, b.Next
	case s.State == Paused || s.State == Refused:
		s.State, s.Reason, s.Until = OK, "", time.Time{} // it has ended since the decision
	}
	return s
}

// status returns the status of a decision as JSON; "" = nothing that anybody would notice has changed.
func (m *Manager) status(s *subject, d policy.Decision, c *pool.Counts, refused error) string {
	n := Status{
		Want: d.Want, State: OK, Lead: d.Lead.Round(100 * time.Millisecond), Forecast: round(d.Forecast), Risk: round(d.Risk), Limit: d.Limit,
		Credit: round(d.Credit), Warm: d.Warm, Failing: d.Failing || c.Brake.Brakes(),
	}
	var why *pool.RefusedError
	switch {
	case errors.As(refused, &why) && why.Reason == pool.ReasonBudget:
		n.State, n.Until = Budget, c.At.Add(why.After).Truncate(time.Second)
		whose := "the budget of this target is used up"
		if why.Text != string(s.target.ID) {
			whose = "the overall budget is used up"
		}
		n.Reason = fmt.Sprintf("%s; there is room again at %s", whose, n.Until.Format(time.RFC3339))
	case errors.As(refused, &why) && why.Reason == pool.ReasonPermit:
		n.State, n.Reason = Starved, why.Text
	case errors.As(refused, &why) && why.Reason == pool.ReasonBrake && !c.Brake.Brakes():
		n.State, n.Reason = Starved, why.Text
	case errors.As(refused, &why):
	case refused != nil:
		n.State, n.Reason = Starved, refused.Error()
	}
	if n.State == OK && c.Brake.Brakes() {
		n.State, n.Reason = Starved, fmt.Sprintf("the last orders failed or were refused, one try each %v (has the sitekey changed?); the last: %s", c.Brake.Every, c.Brake.Reason)
	}
	text, err := json.Marshal(n)
	if err != nil || string(text) == c.Status {
		return ""
	}
	if n.State != stateIn(c.Status) {
		level := m.log.Info
		if n.State != OK {
			level = m.log.Warn
		}
		level("the state of a target has changed", "target", s.target.Name, "state", n.State, "reason", n.Reason)
	}
	return string(text)
}

func stateIn(status string) string {
	s := Status{State: OK}
	_ = json.Unmarshal([]byte(status), &s) // see StatusOf
	return s.State
}

// round keeps two digits, so that a slow change writes nothing.
func round(x float64) float64 {
	if x == 0 || math.IsInf(x, 0) || math.IsNaN(x) {
		return 0
	}
	scale := math.Pow(10, 1-math.Floor(math.Log10(math.Abs(x))))
	return math.Round(x*scale) / scale
}
