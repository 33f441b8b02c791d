package refill

import (
	"cmp"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"poold/internal/backoff"
	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/refill/policy"
	"poold/internal/targets"
)

// The states of a Status, as in /status.
const (
	OK      = "ok"
	Paused  = "paused"  // halted by the file (targets.Target.Halted) or paused by an operator; nothing is bought
	Starved = "starved" // the target wants tokens and cannot order them now
	Budget  = "budget"  // the target wants tokens, and the budget is used up
	Refused = "refused" // the provider rejects the target's parameters
)

// These are the reasons that many targets can have at the same time. In the state Budget, the
// reason begins with OverallBudget or OwnBudget.
const (
	NoSlot        = "waiting for a provider that can take an order"
	OverallBudget = "the overall budget is used up"
	OwnBudget     = "the budget of this target is used up"
)

// Status describes the refilling of a target.
type Status struct {
	Want   int           // tokens that the policy wants now; 0 while paused
	State  string        // OK, Paused, Starved, Budget or Refused
	Reason string        // "" if OK
	Lead   time.Duration // lead time with which the policy plans
	Until  time.Time     // time at which the used-up budget has room again, or a refused target tries its next order; otherwise zero
	// These figures of an adaptive target have the same meaning as in policy.Plan.
	Forecast, Risk float64
	Limit          string
	// Credit is the number of tokens that may still expire before an adaptive target keeps only `min`
	// tokens.
	Credit float64
	Warm   int // number of tokens that warm windows want ready
	// Failing reports that the last orders all failed. While it is true, only few orders are
	// placed.
	Failing  bool
	Failures []Failure // last failures, latest first; immutable
}

// Failure is an order that ended without a token.
type Failure struct {
	At     time.Time
	Reason string
}

const failuresKept = 5

// status holds the current Status of a target. A status is shared by the worker, by the goroutines of
// the target's orders and by the readers of /status.
type status struct {
	mu           sync.Mutex
	now          Status
	waiting      time.Time // time since which the worker has wanted to place an order; zero = it wants none
	trouble      string    // reason why the last order was refused; "" after a solve
	delayedUntil time.Time // no order is placed before this time
}

func (s *status) begin(t targets.Target, lead time.Duration, credit float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = Status{Want: t.Depth, State: OK, Lead: lead, Credit: credit}
	if t.Refill == targets.RefillAdaptive {
		s.now.Want = t.Min
	}
	if reason := t.Halted(); reason != "" {
		s.now.Want, s.now.State, s.now.Reason = 0, Paused, reason
	}
}

func (s *status) snapshot() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *status) setLocked(state, reason string) {
	s.now.State, s.now.Reason, s.now.Until = state, reason, time.Time{}
}

func (s *status) set(state, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setLocked(state, reason)
}

// decided updates the status from a decision of the policy and from the stock that the policy saw.
func (s *status) decided(d policy.Decision, stock pool.Stock, at time.Time, log *slog.Logger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.Want, s.now.Lead = d.Want, d.Lead
	s.now.Forecast, s.now.Risk, s.now.Limit = d.Forecast, d.Risk, d.Limit
	s.now.Credit, s.now.Warm = d.Credit, d.Warm
	a := stock.Attempts
	s.boundLocked(a, d.Failing, log)
	if d.Order == 0 {
		s.waiting = time.Time{}
	}
	switch {
	case stock.Paused:
		s.setLocked(Paused, "paused by an operator")
	case a.Hopeless:
		s.refuseLocked(a, at)
	case s.now.Failing:
		s.setLocked(Starved, fmt.Sprintf("%d orders in a row failed or were refused, one try each %v (has the sitekey changed?); the last: %s",
			max(a.Refused+a.Failed, policy.FailuresInARow), policy.ProbeEvery, cmp.Or(a.Reason, "unknown")))
	case d.Order > 0 && s.now.State == Budget:
		// The state stays Budget until an order is placed.
	case s.starvesLocked(at):
		s.starveLocked()
	case stock.Unknown > 0 && stock.Fresh == 0 && d.Order == 0:
		// Orders with an unknown outcome count as orders in flight until they expire.
		s.setLocked(Starved, fmt.Sprintf("the outcome of %d of %d orders in flight is unknown: their submits got no clear answer", stock.Unknown, stock.Orders))
	case d.Order == 0 || s.trouble == "":
		s.setLocked(OK, "")
	case s.now.State == Starved:
		// The reason for the state Starved may have changed.
		s.setLocked(Starved, s.trouble)
	}
}

// boundLocked sets Failing, and logs when Failing begins and ends.
func (s *status) boundLocked(a pool.Attempts, failing bool, log *slog.Logger) {
	was, refused := s.now.Failing, s.now.State == Refused
	s.now.Failing = a.Bounded > 0 || failing
	switch {
	case a.Hopeless && !refused:
		log.Error("the provider rejects the target's parameters; one order is tried at growing intervals", "err", a.Reason, "every", a.Every)
	case !a.Hopeless && s.now.Failing && !was:
		log.Warn("orders fail one after the other; trying slowly", "err", a.Reason, "every", policy.ProbeEvery)
	case was && !s.now.Failing:
		log.Info("a solve succeeded again")
	}
}

// refuseLocked sets the state Refused, and sets Until to the time of the next order.
func (s *status) refuseLocked(a pool.Attempts, at time.Time) {
	until := s.now.Until
	if next := at.Add(a.Next); (next.Sub(until)).Abs() > time.Second {
		until = next.Round(time.Second)
	}
	s.setLocked(Refused, a.Reason)
	s.now.Until = until
}

// wantsSlot records that the worker wants a slot. wantsSlot returns the time since which the worker
// has been waiting for a slot.
func (s *status) wantsSlot(at time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting.IsZero() {
		s.waiting = at
	}
	return s.waiting
}

// If the worker has been waiting for a slot for at least the time starvedAfter, starve sets the
// state Starved.
func (s *status) starve(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.starvesLocked(at) {
		s.starveLocked()
	}
}

func (s *status) starveLocked() {
	s.setLocked(Starved, cmp.Or(s.trouble, NoSlot))
}

// starvesLocked reports whether the worker has been waiting for a slot for at least the time
// starvedAfter.
func (s *status) starvesLocked(at time.Time) bool {
	return !s.waiting.IsZero() && at.Sub(s.waiting) >= starvedAfter
}

// placed records that an order was placed. The result `recovered` is true if the state was Budget
// before.
func (s *status) placed(at time.Time) (recovered bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = time.Time{}
	if recovered = s.now.State == Budget; recovered {
		s.setLocked(OK, "")
	}
	return recovered
}

// outOfBudget sets the state Budget, and reports whether the state changed. The worker tries again
// before the budget has room, because a reload can raise the budget.
func (s *status) outOfBudget(err *purchase.BudgetError, at time.Time) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed = s.now.State != Budget
	which := OwnBudget
	if err.Of == pool.Overall {
		which = OverallBudget
	}
	until := at.Add(err.RetryAfter)
	s.setLocked(Budget, fmt.Sprintf("%s; there is room again at %s", which, until.UTC().Format(time.RFC3339)))
	s.now.Until = until
	s.delayedUntil = at.Add(min(err.RetryAfter, budgetWait))
	return changed
}

// busy records that the provider refused an order because it lacks capacity, and delays the next
// order.
func (s *status) busy(err error, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busyLocked(err, at)
}

func (s *status) busyLocked(err error, at time.Time) {
	s.trouble = err.Error()
	s.delayedUntil = at.Add(busyWait + backoff.UpTo(busyWait))
}

func (s *status) orderDelay(at time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.delayedUntil.Sub(at)
}

func (s *status) ended(result purchase.Result, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case result.Outcome == purchase.Solved:
		s.trouble = ""
	case result.Hopeless, result.Outcome == purchase.Failed:
		s.failedLocked(result, at)
	case result.Outcome == purchase.Busy:
		s.busyLocked(result.Err, at)
	default:
		// The order was lost, ended elsewhere or was interrupted, so its end says nothing about the
		// target.
	}
}

// failedLocked adds a failure. failedLocked makes a new list, because other goroutines may read the
// old list.
func (s *status) failedLocked(result purchase.Result, at time.Time) {
	kept := s.now.Failures[:min(len(s.now.Failures), failuresKept-1)]
	s.now.Failures = append([]Failure{{At: at, Reason: result.Err.Error()}}, kept...)
}
