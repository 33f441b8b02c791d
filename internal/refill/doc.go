// Package refill decides when to buy, and how many orders.
//
// A Manager knows the targets of the file, and the guests: identities without a target for which callers of this
// replica wait. The times of the next decisions are in Redis, and each replica asks for due identities
// (pool.Due), so that idle targets cost all replicas together about as much as one. The replica that caused a
// change decides at once.
//
// A decision about a target is one script that reads the counts (pool.Decide). The policy (package policy) says
// how many tokens are missing, and the Manager places the orders one after the other, until one is refused. A
// refused target has a place in the queue of its obstacle (wants in package pool), and is decided again when
// its turn has come. Decisions run in one errgroup, orders in a second one: a refill goroutine carries one order
// from its placing to its end.
//
// # Several replicas
//
// No target belongs to a replica. Two replicas may decide at the same moment: pool.Place checks the depth again,
// so they do not buy twice. If a replica dies between its decision and its orders, the next decision is due 2 s
// later. A replica that does not know an identity removes it from due, unless callers or orders need it; a
// replica that knows it adds it again after 30 s at the latest.
//
// Each replica follows the demand of a target in its own memory, from the counts of all replicas. A replica that has
// not decided for a while reads the state that another one has saved since. A saved state has the counts to which it
// belongs, so that no request is learned twice or never.
//
// # Invariants
//
//   - After Apply, no order is placed by an old definition, unless its placing had begun.
//   - A reload changes nothing for a target whose definition is the same. A changed target loses the unsaved events
//     of at most 10 s, and then learns them from the counts.
//   - A target that a permit, a brake or a budget refuses is not asked about until something may have changed.
//   - When Run returns, all goroutines of decisions and orders have ended.
//   - A panic in a decision ends nothing else.
//
// # Out of scope
//
// It does not choose the provider or carry the order (purchase), nor forecast (policy).
package refill
