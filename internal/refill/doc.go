// Package refill decides when to buy tokens and how many.
//
// targets defines the targets, package policy has the arithmetic, and purchase buys. This package
// runs the policy in the daemon. The manager keeps one worker per target (manager.go). The looker
// looks at the identities that are due, many in one exchange with Redis (looker.go). Each worker
// decides and places orders (worker.go, bid.go, look.go), keeps the learned state of its target
// (tracker.go), and reports the target's status (status.go). The manager also adopts the orders of
// dead replicas (recovery.go). The replicas divide the targets: one replica watches each target,
// that is, looks at it without a wake-up (watch.go).
//
// # A worker's turn
//
//  1. prepare chooses the lead time by which to judge the stock.
//  2. The looker looks at the stock. A turn without a possible change skips the look (look.go).
//  3. decide computes the policy's plan and decision.
//  4. endTurn requests a slot with a bid, and place buys with the granted slot, one order at a
//     time. While the worker waits for a slot, a wake-up changes its bid (bid.go).
//  5. The worker waits until a wake-up, the time that the policy named, or the backstop.
//
// A wake-up means that a token was taken or landed, or that a caller waits. Wake-ups within 20 ms
// share one look. The backstop finds changes without a wake-up: takes at other replicas, and
// orders that expired. It is longer after looks without a change.
//
// At the start, before it buys anything, and then about every 2 s the manager adopts the orders of
// dead replicas. It looks at a removed identity once more when its last token and order must have
// expired, so that its figures are complete.
//
// # Invariants
//
//   - When Apply returns, each wanted target has one worker. A removed or changed target has no
//     worker with its old definition, and no order is placed under it. Orders in flight end under
//     the definition with which they were placed.
//   - A reload does not disturb a target whose definition is unchanged.
//   - The stock enforces the depth, in one script. A decision here is only the reason to ask.
//   - A worker requests one slot at a time and bids the worth of its order: first bids with pending
//     callers, then the greatest worth, and every fourth slot the oldest request. So a target that
//     needs one token and a target that needs a hundred both get slots.
//   - When Run returns, the goroutines of all orders have ended.
//   - Every retry has a delay: see the constants of worker.go, and policy's probe.
//
// # What it does not do
//
// It knows no provider and no protocol (purchase), no Redis key (pool) and no file (targets). The
// stock keeps lead times, counts and the learned state; only policy reads the latter.
package refill
