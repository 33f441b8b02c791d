// Package refill decides WHEN to buy.
//
// It stands between targets, which says what is wanted, and purchase, which
// buys. Its two halves are kept apart on purpose:
//
//   - the policy is arithmetic without a clock and without I/O: what an identity
//     holds goes in, how many to order and when to look again comes out.
//     policy.go is what all decisions share; mind.go and adaptive.go are `refill:
//     fixed` and `adaptive` behind one face, a Mind, which remembers the demand; view.go, forecast.go,
//     table.go, gaps.go, leads.go, slots.go and rails.go are what a Mind thinks with; saved.go saves
//     it; calendar.go knows the warm windows; replay.go lets a Mind live in virtual
//     time, on drawn demand (simulation.go, demand.go) or on the real one
//     (shadow.go).
//   - manager.go and worker.go are the daemon around it: one worker per
//     identity looks, decides, places and sleeps.
//
// # A worker's turn
//
//	look      the stock of the identity, with the lead time to judge it by
//	decide    what the Mind wants, then Throttle
//	place     as many orders as decided, each: Admit one slot, with a bid, then Place
//	sleep     until a kick, the time that the policy named, or the backstop
//
// A kick says that somebody took, landed or waits. Several within 20 ms cost
// one look. The backstop finds what nobody kicked for: takes at other
// replicas, orders that ran out of time.
//
// At the start, before anything is bought, and every 2 s after that, the manager
// has the desk adopt the orders of replicas that are gone and sees them through
// as its own. Identities that no target names any more are looked at once more
// when their last token and order must be over, so that their figures are complete.
//
// # How an adaptive target decides
//
// A Wish says how many tokens are wanted, a Decision what to order, given the
// stock. One more token is wanted while it is likely to be needed before a later
// order could arrive (view.risk), likely to be used at all (view.use), and the
// two are worth its price: `max_waste` is what saving a caller a wait is worth
// in tokens, `hit_rate` where more of them stop helping. The first one is put off
// while a later order would serve more (view.early).
//
// How likely requests are comes from three sources. The fallback knows the rate of
// the last minute or two. The table knows what happened next, the last times that
// it had been silent for as long after being as busy: how long bursts are, how
// they end, whether anybody comes late enough for a token that is ordered now. The
// gaps know when the next request is due, whatever the period. Table and gaps
// count as many samples as they have, what they correct as one or two, so that a new
// target begins careful.
//
// Where slots are few, a target learns how long its orders wait for one, and orders
// ahead what it could not place in time (view.enoughInTime).
//
// Tokens that will die within about a lead time count as far as they will be
// used, orders as far as they will land, and the rails hold: depth, the credit
// that hits earn and expiries use up, which also bounds what is held, probes while
// solves fail, idle_after. A Decision's Forecast, Risk and Rail say what it was led
// by.
//
// All times in the policy are for lead times about 18 s; a target whose lead
// times are more than three times off has them stretched in proportion.
//
// # Shadows
//
// Each target that is asked for tokens has a shadow: what the other way of refilling would
// have done with the same requests, at lead times drawn from the real ones. The
// shadow of a fixed target is the adaptive policy, whose table is kept as an
// adaptive target's would be and let go of after an hour without a request; that of
// an adaptive target is a ladder of fixed depths, and the adaptive policy at higher prices:
// these know what the target knows, and say what its hit rate needs. They order nothing.
//
// # Invariants
//
//   - Running equals wanted when Apply returns: a target that went or changed
//     has no worker any more, and no order is placed under its old definition.
//     Orders under way are not waited for; they end under the definition that
//     they were placed with.
//   - A target whose definition is unchanged is not disturbed by a reload.
//   - The depth sentence is enforced by the stock, in one script; the decision
//     here is only the reason to ask.
//   - A worker asks for one slot at a time and bids what the order is worth: callers
//     waiting come first, then the greatest worth, and now and then who has waited
//     longest, so that a target that needs a hundred tokens and one that needs one
//     both get on. A bid is made anew when something happens to its target.
//   - An order never exists without the goroutine that sees it through, and
//     these are bounded, recover their panics and end before Run does.
//   - Nothing retries for ever at full speed: see the constants of worker.go
//     and policy.go.
//
// # What it does not do
//
// It knows no provider and no protocol (purchase), no Redis key (pool) and no
// file (targets). It stores nothing itself: lead times and counts are the stock's,
// and what a Mind learned is kept there as bytes that only saved.go understands.
package refill
