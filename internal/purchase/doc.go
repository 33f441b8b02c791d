// Package purchase runs an order from the permit at a provider to the token in the stock. The
// package also continues orders that other replicas began.
//
// Packages refill and ondemand decide when to buy. Package purchase calls the services through
// package provider, and keeps orders and tokens in Redis through packages pool and permits. A Buyer
// serves all targets of a replica. It consists of parts, each with its own lock and files:
//
//	accounts   the configured and the former providers (account.go, slot.go), the faults that
//	           replicas share (standing.go), thread limits and balances (maintenance.go)
//	scheduler  gives each free slot to the best bid, and every fourth slot to the oldest request
//	           (scheduler.go); the policy of the request chooses the provider (choose.go)
//	placer     places orders beside the stock with their reservations, and removes orders that
//	           were not submitted (place.go)
//	orders     run each order in a goroutine (orders.go), from submit to end (collect.go), with
//	           its polls (wait.go), its journal line (order.go), and the list of all orders in
//	           flight (underway.go)
//	callbacks  handle the callbacks of services (callback.go, signature.go); replay from disk
//	           the callbacks that Redis did not accept (replay.go, package spool)
//	recovery   adopts the orders of dead replicas (recovery.go)
//	reports    pass callers' reports to the providers (report.go)
//
// # The life of an order
//
//  1. Admit reserves a slot of this replica at the provider that the policy of the bid chooses: the
//     first provider that can take an order now, or the one that the Chooser names.
//  2. Buy acquires a permit at the provider; the permits of all replicas count together. Buy
//     reserves a solve in the overall budget, and for a guest (an identity without a target) also
//     in the budget of all guests. Then one script checks the depth and the target's budgets, and
//     stores the order in Redis beside the identity's tokens. If a step refuses the order, Buy
//     returns the reservations.
//  3. The order's goroutine marks the order as submitting, submits it, and stores the task id.
//  4. The goroutine waits for a callback, or polls.
//  5. The goroutine settles the order: one script removes the order and adds the token. Then the
//     goroutine returns the permit.
//
// Adopt continues the orders of dead replicas. The replica at which a callback arrives ends the
// order.
//
// Each step in Redis contains the order's id and is idempotent, so the buyer retries a step whose
// answer was lost. The submit is never retried.
//
// # How an order ends
//
// The table in end.go lists every way in which an order ends, whether a poll, a callback, a stop or
// an adoption triggers the end. The buyer reports each order that ends at this replica as one
// Event. The main cases:
//
//   - If the service refuses a submit, the budget reservations are returned, because nothing was
//     bought.
//   - After a submit without an answer the order is kept until it expires, because the service may
//     have accepted it.
//   - Once the task id is known, a token settles the order. A task fault, a parameter fault or the
//     time-out removes the order as failed, or as lost if its last polls had no answer. After a
//     capacity or account fault the task is polled again.
//   - An adopted order that was not marked is removed. A marked order without a task id is kept
//     until it expires. An order with a task id is collected if its account is configured;
//     otherwise the order is logged and left to other replicas.
//
// An order stores the account at which it was placed, and Redis lists the names of all providers
// with permits. So most orders can still be collected after a reload that renames or removes the
// provider.
//
// # Invariants
//
//   - An order is in Redis, marked as submitting, before its submit is sent. Each order is
//     submitted at most once. Neither a stop nor a time-out of the caller cancels a submit in
//     flight.
//   - A replica that lost its lease on an order cannot mark, settle or remove that order, because
//     the scripts check the lease. A process that is suspended between marking an order and sending
//     its submit may still submit after the lease has expired; that order counts as bought.
//   - A task id is stored before it is polled, and belongs to one order.
//   - An order with an unanswered submit counts in the depth, in the provider's concurrency and in
//     the budgets of all replicas until it expires. Only its local slot is freed at once.
//   - The bytes of a picture are kept only in memory, and only until the submit. No Redis key,
//     event, log line or error contains them. An adopted order does not need its picture, because
//     it is not submitted again.
//   - The age of a polled token counts from the start of the last poll that found the task
//     unsolved, or else from just before the submit. The age of a token from a callback counts from
//     a configured time before the callback first arrived, but never from before the submit.
//   - The service gets the answer to a callback after Redis has applied the callback, or after the
//     disk has stored it as a dead letter (package spool). An invalid callback is only counted.
//   - An outage of Redis loses no paid task before the order's deadline: the steps that store,
//     settle and release are retried until the deadline.
//   - Each order in flight has one goroutine, which recovers from panics. The number of these
//     goroutines is bounded.
//   - Every Slot is freed: by Buy when it refuses the order, by the order's goroutine at the end,
//     by Adopt if it cannot run the order, or by the caller of Admit.
//
// # Crash points
//
// Tests can make the process kill itself (package crash) after each step of an order: placed,
// marked, submitted, stored, polled or settled. The same is possible after a callback was received,
// delivered or kept on disk.
//
// # What it does not do
//
// The package does not decide how many tokens to buy (refill), what an error code means (provider)
// or how long a token lives (pool).
package purchase
