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
//  1. The method prepare chooses a lead time. The look counts the tokens that outlive it.
//  2. The looker reads the stock. This read is called a look. If the stock cannot have changed
//     since the last look, the turn skips this step (look.go).
//  3. The method decide computes the policy's plan and decision.
//  4. The method endTurn requests a slot with a bid, and the method place buys with the granted
//     slot, one order at a time. While the worker waits for a slot, a wake-up updates its bid
//     (bid.go).
//  5. The worker waits for a wake-up. The policy and the backstop limit this wait.
//
// A wake-up means that a token was taken or landed, or that a caller waits. Wake-ups within 20 ms
// share one look. The backstop finds changes without a wake-up, such as takes at other replicas and
// expired orders. After several looks without a change, the backstop becomes longer.
//
// The manager adopts the orders of dead replicas before it buys anything, and then about every 2 s.
// When all tokens and orders of a removed identity must have expired, the manager looks at the
// identity for the last time. This look completes the identity's figures.
//
// # Invariants
//
//   - When Apply returns, each wanted target has one worker. A removed or changed target has no
//     worker with its old definition, and no order is placed under the old definition. Orders in
//     flight end under the definition with which they were placed.
//   - A reload does not disturb a target whose definition is unchanged.
//   - One Redis script in package pool enforces the depth. This package only decides when to call
//     that script.
//   - A worker requests one slot at a time and bids the worth of its order. Bids for pending
//     callers come first, then the bids with the greatest worth. Every fourth slot goes to the
//     oldest request. So a target that needs one token and a target that needs a hundred both get
//     slots.
//   - When Run returns, the goroutines of all orders have ended.
//   - Every retry has a delay: see the constants in worker.go, and the constant ProbeEvery of
//     package policy.
//
// # What it does not do
//
// The package neither calls providers (see package purchase) nor Redis (package pool), and does not
// read the configuration file (package targets). The stock stores lead times, counts and the
// learned state. Only package policy can read the learned state.
package refill
