// Package purchase runs the life of an order: from a permit at a provider to a token in the
// stock, whichever replica began the order.
//
// refill and ondemand decide when to buy. purchase uses provider to talk to the services, and
// pool and permits to keep orders and tokens in Redis. A Buyer serves all targets of a replica.
// It consists of parts, each with its own lock and files:
//
//	accounts   the configured and the former providers (account.go, slot.go), the faults that
//	           replicas share (standing.go), threads and balances (maintenance.go)
//	scheduler  gives each free slot to the best bid, and every fourth one to the oldest request
//	           (scheduler.go)
//	placer     places orders beside the stock with their reservations, and removes those that
//	           were not submitted (place.go)
//	orders     run each order in a goroutine (orders.go), from submit to end (collect.go), with
//	           its polls (wait.go), its journal line (order.go), and the list of all orders in
//	           flight (underway.go)
//	callbacks  handle the callbacks of services (callback.go, signature.go); replay from disk
//	           those that Redis did not accept (replay.go, package spool)
//	recovery   adopts the orders of dead replicas (recovery.go)
//	reports    pass callers' reports to the providers (report.go)
//
// # The life of an order
//
//  1. Admit reserves a local slot at the first provider that can take an order now.
//  2. Buy acquires a permit at the provider, counted over all replicas. It reserves a solve in
//     the overall budget, and for a guest (an identity without a target) in the budget of all
//     guests. Then one script checks the depth and the target's budgets, and creates the order
//     beside the stock. A refusal returns the reservations.
//  3. The order's goroutine marks the order, submits it, and stores the task id.
//  4. It waits for a callback, or polls.
//  5. It settles the order: one script removes the order and adds the token. Then it returns the
//     permit.
//
// Adopt continues the orders of dead replicas. Callback ends an order at whichever replica the
// service's request arrives.
//
// Each step in Redis has the order's id and is idempotent, so it is retried if its answer was
// lost. The submit is never retried.
//
// # How an order ends
//
// One table has all ends (end.go), whether a poll, a callback, a stop or an adoption triggers
// them. Each end at this replica is one Event. In short:
//
//   - A refused submit returns the budget reservations, since nothing was bought.
//   - After a submit without an answer the order is kept until it expires, because it may have
//     been bought.
//   - Once the task id is known, a token settles the order. A task fault, a parameter fault or
//     the time-out removes it as failed, or as lost if its last polls had no answer. After a
//     capacity or account fault it is polled again.
//   - An adopted order is removed if it was not marked, and kept if it was marked and has no task
//     id. It is collected if its task id and its account are known, and otherwise logged and left
//     to other replicas.
//
// An order stores the account at which it was placed, and Redis lists the names of all providers
// with permits. So a reload that renames or removes a provider strands few orders.
//
// # Invariants
//
//   - An order is in Redis, marked, before its submit leaves. It is submitted once. Neither a stop
//     nor a time-out of the caller cancels a submit in flight.
//   - A replica that lost its lease on an order cannot mark, settle or remove it: the scripts
//     refuse. A process that was suspended between the mark and the first byte of the submit may
//     still submit; the order counts as bought.
//   - The task id is stored before it is used, and belongs to one order.
//   - An order with an unanswered submit counts in the depth, in the provider's concurrency and
//     in the budgets of all replicas until it expires. Only the local slot is freed.
//   - The bytes of a picture stay in memory, until the submit. They are in no Redis key, event, log
//     line or error. An adopted order does not need them.
//   - The age of a token counts from the start of the last poll that found it not ready, or from
//     just before the submit. With a callback it counts from a configured time before the first
//     arrival, but not from before the submit.
//   - A callback is answered when Redis or the disk has stored it (a dead letter; spool). An
//     invalid callback is counted and has no effect.
//   - An outage of Redis loses no paid task before the order's deadline: storing, settling and
//     releasing are retried until then.
//   - Each order in flight has one goroutine. Their number is bounded, and they recover from
//     panics.
//   - Every Slot is freed: by Buy when it refuses, at the end of the order, by Adopt if it cannot
//     run the order, or by the caller of Admit.
//
// # Crash points
//
// A test build can kill itself (package crash) when an order is placed, marked, submitted,
// stored, polled or settled, and when a callback is received, delivered or kept.
//
// # What it does not do
//
// It does not decide how many tokens to buy (refill), what an error code means (provider) or how
// long a token lives (pool).
package purchase
