// Package refill decides WHEN to buy and how many, by the arithmetic of its package
// policy.
//
// It stands between targets, which says what is wanted, and purchase, which buys. What
// it decides is policy's arithmetic; this package is the daemon around it. One looker
// has the identities that are due looked at together (looker.go), and one worker per
// identity decides and places (worker.go, sight.go), with what it knows of its target (tracker.go)
// and says of it (status.go). The manager keeps as many workers as there are targets
// (manager.go) and collects what others left (recovery.go). The replicas divide the
// targets: each is watched by one, which looks at it although nobody kicked (watch.go).
//
// # A worker's turn
//
//	prepare   with which lead time the stock is to be judged
//	look      the looker's: all who are due in one exchange with Redis; left out where
//	          nothing can have happened since the last one (sight.go)
//	decide    policy's Plan and Decision
//	place     as many orders as decided, each: Request one slot, with a bid, then Buy.
//	          While a worker waits for a slot it rests, and a wake changes its bid (bid.go)
//	rest      until a kick, the time that the policy named, or the backstop
//
// A kick says that somebody took, landed or waits. Several within 20 ms cost
// one look. The backstop finds what nobody kicked for: takes at other
// replicas, orders that ran out of time. It comes seldom where nothing happens.
//
// At the start, before anything is bought, and about every 2 s after that, the manager
// has the buyer adopt the orders of replicas that are gone. Identities that no target
// names any more are looked at once more
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
//   - A worker asks for one slot at a time and bids what the order is worth: callers
//     waiting come first, then the greatest worth, and now and then who has waited
//     longest, so that a target that needs a hundred tokens and one that needs one
//     both get on. A bid is made anew when something happens to its target.
//   - Every order's goroutine, which is the buyer's, has ended when Run returns.
//   - Nothing retries for ever at full speed: see the constants of worker.go
//     and policy's probe.
//
// # What it does not do
//
// It knows no provider and no protocol (purchase), no Redis key (pool) and no
// file (targets). It stores nothing itself: lead times and counts are the stock's,
// and what was learned is kept there as bytes that only policy understands.
package refill
