package refill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"poold/internal/pool"
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

const (
	// starvedAfter is how long a target waits for a permit before it counts as starved.
	starvedAfter = 2 * time.Second
	// starvedLogged is how long a target must be starved before the log says so.
	starvedLogged = 5 * time.Second
	// noteEvery is the minimum time between two writes of a status if only its figures have changed.
	noteEvery = 2 * time.Second
)

// Status describes the refilling of a target. Redis stores the Status of the last decision as JSON, whichever replica
// made the decision.
type Status struct {
	Want   int           `json:"want"` // tokens that the policy wants now; 0 while paused
	State  string        `json:"state"`
	Reason string        `json:"reason,omitempty"`
	Since  time.Time     `json:"since,omitzero"` // of the state, unless it is OK or Paused
	Lead   time.Duration `json:"lead"`           // lead time with which the policy plans
	Until  time.Time     `json:"until,omitzero"` // when the next order is tried, or the pause ends
	At     time.Time     `json:"at"`             // of the decision, on Redis' clock
	// Queued is when the target began to wait for a permit; zero = it does not wait for one.
	Queued time.Time `json:"queued,omitzero"`

	// These figures are set only for an adaptive target; package policy explains them (policy.Decision).
	Forecast float64 `json:"forecast,omitempty"`
	Risk     float64 `json:"risk,omitempty"`
	Limit    string  `json:"limited_by,omitempty"`
	Credit   float64 `json:"credit,omitempty"`
	Warm     int     `json:"warm,omitempty"`
	Failing  bool    `json:"failing,omitempty"` // the last orders all failed, and only few are placed
}

// StatusOf returns the status of a target from its counts, as pool.Decide or pool.Counts read them. It is the same at
// every replica.
func StatusOf(t *targets.Target, c *pool.Counts) Status {
	s := Status{Want: t.Depth, State: OK}
	if t.Refill == targets.RefillAdaptive {
		s.Want = t.Min
	}
	if c.Status != "" {
		_ = json.Unmarshal([]byte(c.Status), &s) // a status of another form keeps the defaults
	}
	set := func(state, reason string, since, until time.Time) {
		s.State, s.Reason, s.Since, s.Until = state, reason, since, until.Round(time.Second)
	}
	b := c.Brake
	hint := ""
	if t.ProvidersPolicy == targets.ProvidersOrdered {
		hint = "; a spare provider gets orders only with `providers_policy: cheapest` or `best`"
	}
	s.Failing = s.Failing || b.On()
	switch {
	case t.Halted() != "":
		s.Want = 0
		set(Paused, t.Halted(), time.Time{}, time.Time{})
	case b.IsPaused():
		s.Want = 0
		set(Paused, b.Paused, time.Time{}, b.Resumes)
	case b.On() && b.Kind == string(pool.BadParameters):
		set(Refused, b.Reason+hint, b.Since, b.Next)
	case b.On():
		set(Starved, fmt.Sprintf("%s: the last orders failed, so one is tried each %v; check the sitekey, and the provider%s",
			b.Reason, b.Every, hint), b.Since, b.Next)
	case s.State == Starved && !s.Queued.IsZero() && c.At.Sub(s.Queued) < starvedAfter:
		set(OK, "", time.Time{}, time.Time{})
	case s.State == OK && c.Unknown > 0 && c.Fresh == 0 && s.Want > 0:
		set(Starved, fmt.Sprintf("the outcome of %d of %d orders in flight is unknown until their timeout: "+
			"their submits got no clear answer", c.Unknown, c.Orders), time.Time{}, time.Time{})
	}
	return s
}

// note returns the result of a decision as JSON, or "" if nothing worth storing has changed. It logs a change of the
// state.
func (d *decision) note(ctx context.Context, wants *policy.Decision, c *pool.Counts, err error) string {
	was := Status{}
	_ = json.Unmarshal([]byte(c.Status), &was) // see StatusOf
	now := Status{
		Want: wants.Want, State: OK, Lead: wants.Lead.Round(100 * time.Millisecond), Forecast: round(wants.Forecast),
		Risk: round(wants.Risk), Limit: wants.Limit, Credit: round(wants.Credit), Warm: wants.Warm, Failing: wants.Failing,
	}
	var refused *pool.NotPlacedError
	switch {
	case err == nil:
	case !errors.As(err, &refused):
		now.State, now.Reason = Starved, err.Error()
	case refused.Reason == pool.ReasonBudget:
		now.State, now.Until = Budget, c.At.Add(refused.After).Round(time.Second)
		now.Reason = refused.Budget() + "; " + pool.RoomAgain(now.Until)
	case refused.Reason == pool.ReasonPermit:
		now.State, now.Reason, now.Queued = Starved, refused.Text+"; raise concurrency", c.At
		if !was.Queued.IsZero() {
			now.Queued = was.Queued
		}
	case refused.Reason == pool.ReasonBrake && !c.Brake.On():
		now.State, now.Reason = Starved, "no provider takes orders now: "+refused.Text
		now.Until = c.At.Add(refused.After).Round(time.Second)
	}
	switch now.State {
	case OK:
	case was.State:
		now.Since = was.Since
	default:
		now.Since = c.At
	}
	now.At = was.At
	figures := was
	figures.Forecast, figures.Risk, figures.Credit, figures.Lead = now.Forecast, now.Risk, now.Credit, now.Lead
	stays := now == was || now == figures && c.At.Sub(was.At) < noteEvery
	now.At = c.At
	text, _ := json.Marshal(now) // of strings, numbers and times: no error is possible
	found := *c
	found.Status = string(text)
	s := StatusOf(d.target, &found)
	// while a provider fails, this state may come and go each second; only a token shows that the trouble is over
	short := s.State == Starved && c.At.Sub(s.Since) < starvedLogged || s.State == OK && s.Want > 0 && c.Fresh == 0
	d.m.mu.Lock()
	changed := s.State != d.subject.reported && !short
	if changed {
		d.subject.reported = s.State
	}
	d.m.mu.Unlock()
	if changed {
		// Changes to other states are logged with the level info.
		level := map[string]slog.Level{Starved: slog.LevelWarn, Budget: slog.LevelWarn, Refused: slog.LevelError}[s.State]
		if s.State == Starved && s.Failing {
			level = slog.LevelError
		}
		d.m.log.Log(ctx, level, "the state of a target has changed",
			"target", d.spec.Target, "state", s.State, "reason", s.Reason)
		if s.State == Refused || s.State == OK {
			d.m.Refused(d.spec.Target, s.Reason, s.State == Refused)
		}
	}
	if stays {
		return ""
	}
	return string(text)
}

// round keeps two digits, so that a small change causes no write.
func round(x float64) float64 {
	x, _ = strconv.ParseFloat(strconv.FormatFloat(x, 'g', 2, 64), 64)
	return x
}
