package refill

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/refill/policy"
	"poold/internal/targets"
)

// The states of a Note; the words of /status.
const (
	OK      = "ok"
	Paused  = "paused"  // by the file or by an operator: nothing is bought
	Starved = "starved" // wants tokens and cannot order them now
	Budget  = "budget"  // wants tokens and has no budget for them
	Refused = "refused" // the provider finds fault with the target's parameters
)

// Note is what refill has to say about a target.
type Note struct {
	Want   int           // how many tokens the policy wants now; 0 while paused
	State  string        // OK, Paused, Starved, Budget or Refused
	Reason string        // "" where OK
	Lead   time.Duration // lead time that the stock is judged with
	Until  time.Time     // Budget: when there is room again; else zero
	// Of an adaptive target: the requests expected within a lead time, how likely
	// one finds nothing with Want tokens ahead of it, and what keeps Want or the
	// orders below what that asks for (the Limit constants of policy).
	Forecast, Risk float64
	Limit          string
	// Credit: tokens that may still expire unused before an adaptive target falls to
	// its `min`.
	Credit float64
	Warm   int // tokens that warm windows want ready; 0 = none runs or is about to
	// Failing: the last orders all failed, so that few are placed.
	Failing bool
	Shadow  *policy.Shadow // what another way of refilling would have done; nil = too little is known
}

// record is what a worker and its orders know of a target. The worker, the
// goroutines of its orders and /status share it.
type record struct {
	mu        sync.Mutex
	note      Note
	waiting   time.Time // since when an order is wanted and none was placed; zero = none is
	failures  int       // of orders, in a row
	failure   string    // the last one
	trouble   string    // why the last order was not taken; "" after a solve
	heldUntil time.Time // no order before
}

func (r *record) begin(t targets.Target, lead time.Duration, credit float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note = Note{Want: t.Depth, State: OK, Lead: lead, Credit: credit}
	if t.Refill == targets.RefillAdaptive {
		r.note.Want = t.Min
	}
	if t.Paused {
		r.note.Want, r.note.State, r.note.Reason = 0, Paused, "paused in the file"
	}
}

// snapshot copies the note.
func (r *record) snapshot() Note {
	r.mu.Lock()
	defer r.mu.Unlock()
	note := r.note
	note.Failing = r.failures >= policy.FailuresInARow
	return note
}

// setLocked changes the state. A refusal is final: only a new definition,
// which comes with a new record, lifts it. The caller holds mu.
func (r *record) setLocked(state, reason string) {
	if r.note.State != Refused {
		r.note.State, r.note.Reason, r.note.Until = state, reason, time.Time{}
	}
}

func (r *record) set(state, reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.setLocked(state, reason)
}

// decided notes a decision and, where nothing hinders it, that all is well.
func (r *record) decided(d policy.Decision, stock pool.Stock, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note.Want, r.note.Lead = d.Want, d.Lead
	r.note.Forecast, r.note.Risk, r.note.Limit = d.Forecast, d.Risk, d.Limit
	r.note.Credit, r.note.Warm = d.Credit, d.Warm
	if d.Order == 0 {
		r.waiting = time.Time{}
	}
	switch {
	case stock.Paused:
		r.setLocked(Paused, "paused by an operator")
	case r.failures >= policy.FailuresInARow:
		r.setLocked(Starved, fmt.Sprintf("%d failures in a row, one try each %v (has the sitekey changed?); the last: %s", r.failures, policy.ProbeEvery, r.failure))
	case d.Order > 0 && r.note.State == Budget:
		// Until an order stands, or a provider lets it wait.
	case r.starvesLocked(at):
		r.starveLocked()
	case stock.Unknown > 0 && stock.Fresh == 0 && d.Order == 0:
		// They hold the places of the depth until they must be over.
		r.setLocked(Starved, fmt.Sprintf("of %d orders under way nobody knows whether %d were bought: their submits had no clear answer", stock.Orders, stock.Unknown))
	case d.Order == 0 || r.trouble == "":
		r.setLocked(OK, "")
	case r.note.State == Starved:
		// What starved it a while ago need not be what does so now.
		r.setLocked(Starved, r.trouble)
	}
}

// shadowed notes what another way of refilling would have done.
func (r *record) shadowed(s *policy.Shadow) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note.Shadow = s
}

// wantsSlot notes that the worker wants a slot, and tells since when it has placed
// no order for which it wanted one.
func (r *record) wantsSlot(at time.Time) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting.IsZero() {
		r.waiting = at
	}
	return r.waiting
}

// starve calls the target starved if it has waited for long.
func (r *record) starve(at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.starvesLocked(at) {
		r.starveLocked()
	}
}

func (r *record) starveLocked() {
	reason := r.trouble
	if reason == "" {
		reason = "waiting for a provider that can take an order"
	}
	r.setLocked(Starved, reason)
}

// starvesLocked reports whether the worker has waited long to place an order. The
// caller holds mu.
func (r *record) starvesLocked(at time.Time) bool {
	return !r.waiting.IsZero() && at.Sub(r.waiting) >= starvedAfter
}

// placed notes that an order stands, and reports whether a budget had kept the
// target from it before.
func (r *record) placed(at time.Time) (recovered bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = time.Time{}
	if recovered = r.note.State == Budget; recovered {
		r.setLocked(OK, "")
	}
	return recovered
}

// outOfBudget notes that a budget is used up, and reports whether that is news.
// The file can raise it at any time, so the next try is not as far away as the room.
func (r *record) outOfBudget(err *purchase.BudgetError, at time.Time) (news bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	news = r.note.State != Budget
	whose := "the budget of this target"
	if err.Overall {
		whose = "the budget over all targets"
	}
	until := at.Add(err.RetryAfter)
	r.setLocked(Budget, fmt.Sprintf("%s is used up; there is room again at %s", whose, until.UTC().Format(time.RFC3339)))
	if r.note.State == Budget {
		r.note.Until = until
	}
	r.heldUntil = at.Add(min(err.RetryAfter, budgetWait))
	return news
}

// busy notes that an order was not taken, and holds the next one back.
func (r *record) busy(err error, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busyLocked(err, at)
}

func (r *record) busyLocked(err error, at time.Time) {
	r.trouble = err.Error()
	r.heldUntil = at.Add(busyWait + random(busyWait))
}

// heldFor is how long no order shall be placed.
func (r *record) heldFor(at time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.heldUntil.Sub(at)
}

// ended takes notice of an order's end. What a person must know is logged here
// once, when it begins and when it is over.
func (r *record) ended(result purchase.Result, at time.Time, log *slog.Logger) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case result.Outcome == purchase.Solved:
		if r.failures >= policy.FailuresInARow {
			log.Info("a solve succeeded again")
		}
		r.failures, r.failure, r.trouble = 0, "", ""
	case result.Hopeless:
		if r.note.State != Refused {
			log.Error("nothing more is bought until the target's definition changes", "err", result.Err)
		}
		r.note.State, r.note.Reason = Refused, result.Err.Error()
	case result.Outcome == purchase.Failed:
		r.failures++
		r.failure = result.Err.Error()
		if r.failures == policy.FailuresInARow {
			log.Warn("many failures in a row; trying slowly", "err", result.Err)
		}
	case result.Outcome == purchase.Busy:
		r.busyLocked(result.Err, at)
	default:
		// Lost, ended elsewhere or cut by a stop: says nothing about the target.
	}
}

func (r *record) isFailing() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failures >= policy.FailuresInARow
}

func (r *record) isRefused() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.note.State == Refused
}
