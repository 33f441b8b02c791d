// Package refill decides when to buy, and how many orders.
//
// A Manager knows the targets of the file, and the guests: identities without a target for which callers of this
// replica wait. The times of the next decisions are in Redis, and each replica asks for due identities
// (pool.Due), so that idle targets cost all replicas together about as much as one. The replica that caused a
// change decides at once.
//
// A decision about a target is one script that reads the counts (pool.Decide). The policy (package policy) says how
// many tokens are missing, and the Manager places the orders one after the other, until one is refused. A target whose
// order is not placed has a place in the queue of its obstacle (queue:OBSTACLE in package pool), and is decided again
// when its turn has come. Decisions run in one errgroup, orders in a second one: a refill goroutine carries one order
// from its placing to its end.
//
// # Several replicas
//
// No target belongs to a replica. Two replicas may decide at the same moment: pool.Place checks the depth again, so
// they do not buy twice. If a replica dies between its decision and its orders, the next decision is due 2 s later. A
// replica that does not know an identity removes it from the key due, unless callers wait, orders are in flight, or
// a token is left. A replica that knows the identity adds it again within 30 s.
//
// Each replica follows the demand of a target in its own memory, from the counts of all replicas. A replica that has
// not decided for a while reads the state that another replica has saved. A saved state contains the counts at that
// time, so that each request is learned exactly once.
//
// # Invariants
//
//   - After Apply, an old definition of a target places no order, except one whose placing had begun.
//   - A reload changes nothing for a target whose definition is the same. A changed target loses what it learned in the
//     last 10 s at most, and learns those requests again from the counts.
//   - If a permit, a brake or a budget refuses an order of a target, the target is not decided again until this may
//     have changed.
//   - When Run returns, all goroutines of decisions and orders have ended.
//   - A panic in one decision does not affect other decisions.
//
// # Out of scope
//
// It does not choose the provider or carry the order (purchase), nor forecast (policy).
package refill
