// Package refill decides when to buy, and how many orders.
//
// A Manager has the targets of the file and the identities of waiting callers without a target. What is due
// stands in Redis (pool.Due), so that idle targets cost the replicas together about as much as one. The
// replica that caused a change decides at once. A decision is one script that reads the counts; the policy
// (package policy) then says how many tokens are missing, and the Manager places the orders one after the
// other.
//
// Decisions run in one errgroup. Orders run in a second one: a refill goroutine carries one order from its
// placing to its end.
//
// # Several replicas
//
// No target belongs to a replica. Two replicas may decide at the same moment: pool.Place checks the depth
// again, so they do not buy twice. The learned state of a target is in memory; it is read again if another
// replica has decided meanwhile, and saved every 10 s while it changes. It contains the counts to which it
// belongs, so that no request is learned twice or never.
//
// # What it does not do
//
// It does not choose the provider, nor carry the order (purchase), nor forecast (policy).
package refill
