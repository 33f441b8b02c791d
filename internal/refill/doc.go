// Package refill decides WHEN to buy.
//
// It stands between targets, which says what is wanted, and purchase, which
// buys. Its two halves are kept apart on purpose:
//
//   - policy.go is arithmetic without a clock, without I/O and without state:
//     what an identity holds goes in, how many to order and when to look again
//     comes out.
//   - manager.go and worker.go are the daemon around it: one worker per
//     identity looks, decides, places and sleeps.
//
// # A worker's turn
//
//	look      the stock of the identity, with the lead time to judge it by
//	decide    Fixed, then Throttle
//	place     as many orders as decided, each: Admit one slot, then Place
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
// # Invariants
//
//   - Running equals wanted when Apply returns: a target that went or changed
//     has no worker any more, and no order is placed under its old definition.
//     Orders under way are not waited for; they end under the definition that
//     they were placed with.
//   - A target whose definition is unchanged is not disturbed by a reload.
//   - The depth sentence is enforced by the stock, in one script; the decision
//     here is only the reason to ask.
//   - A worker asks for one slot at a time and slots are given out first come,
//     first served, so that a target that needs a hundred tokens and one that
//     needs one take turns.
//   - An order never exists without the goroutine that sees it through, and
//     these are bounded, recover their panics and end before Run does.
//   - Nothing retries for ever at full speed: see the constants of worker.go
//     and policy.go.
//
// # What it does not do
//
// It knows no provider and no protocol (purchase), no Redis key (pool) and no
// file (targets). It stores nothing: what it learns, the lead times, it reads
// from the stock.
package refill
