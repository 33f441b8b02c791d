// Package refill decides when to buy tokens and how many.
//
// Package targets defines the targets, package policy does the arithmetic, and package purchase buys.
// Package refill runs the policy in the daemon. The manager keeps one worker per target (manager.go).
// The looker reads the stocks of the due identities, many in one exchange with Redis (looker.go).
// Each worker decides and places orders (worker.go, bid.go, look.go), stores the learned state of its
// target (tracker.go), and reports the target's status (status.go). The manager also adopts the
// orders of dead replicas (recovery.go). The replicas divide the targets among themselves. Each
// target has one replica that watches it, that is, reads its stock even without a wake-up (watch.go).
//
// # A worker's turn
//
//  1. The method prepare chooses the lead time by which to judge the stock.
//  2. The looker reads the stock, which is called a look. If the stock cannot have changed, the
//     turn skips its look (look.go).
//  3. The method decide computes the policy's plan and decision.
//  4. The method endTurn requests a slot with a bid, and the method place buys with the granted
//     slot, one order at a time. While the worker waits for a slot, a wake-up updates its bid
//     (bid.go).
//  5. The worker waits until a wake-up, the time that the policy named, or the backstop.
//
// A wake-up means that a token was taken or landed, or that a caller waits. Wake-ups within 20 ms
// share one look. The backstop finds changes without a wake-up, such as takes at other replicas and
// expired orders. After looks without a change, the backstop is longer.
//
// The manager adopts the orders of dead replicas before it buys anything, and then about every 2 s.
// The manager takes a last look at a removed identity when the identity's last token and order must
// have expired. This look completes the identity's figures.
//
// # Invariants
//
//   - When Apply returns, each wanted target has one worker. A removed or changed target has no
//     worker with its old definition, and no order is placed under the old definition. Orders in
//     flight end under the definition with which they were placed.
//   - A reload does not disturb a target whose definition is unchanged.
//   - One script of the stock enforces the depth. A decision of this package is only the reason to
//     call that script.
//   - A worker requests one slot at a time and bids the worth of its order. Bids with pending
//     callers come first, then the greatest worth; every fourth slot goes to the oldest request. So
//     a target that needs one token and a target that needs a hundred both get slots.
//   - When Run returns, the goroutines of all orders have ended.
//   - Every retry has a delay: see the constants in worker.go, and the constant ProbeEvery of
//     package policy.
//
// # What it does not do
//
// The package knows no provider and no protocol (purchase), no Redis key (pool) and no file
// (targets). The stock stores lead times, counts and the learned state. Only package policy can read
// the learned state.
package refill
