// Package purchase owns WHAT was paid for: the life of an order, from a permit at a provider to a
// token in the stock, whichever replica began it.
//
// It stands between refill, which decides when to buy, and provider and pool, which know how to
// buy and where tokens wait. Buyer serves all targets of a replica. It consists of parts, each
// with its own lock and files:
//
//	accounts   the providers of the list and former ones (account.go, slot.go), their faults as
//	           all replicas know them (standing.go), their threads and balances (maintenance.go)
//	scheduler  gives slots to the best bid, and every fourth one to the oldest request
//	           (scheduler.go)
//	placer     places orders beside the stock with their reservations, and takes back those
//	           that did not come about (place.go)
//	orders     run each order in a goroutine (orders.go), from submit to end (collect.go), with
//	           its polls (wait.go), its journal line (order.go), and the list of all orders in
//	           flight (underway.go)
//	callbacks  handle pingbacks (callback.go, signature.go), and replay those that Redis did not
//	           take from disk (replay.go, package spool)
//	recovery   adopts the orders of dead replicas (recovery.go)
//	reports    pass callers' reports to the providers (report.go)
//
// All ends of an order are one table (end.go), whether a poll, a callback, a stop or an adoption
// brings them. Each end at this replica is one Event.
//
// # The life of an order
//
//	Admit    a local slot at the first provider that may be asked now
//	Buy      a place at the provider, counted in Redis over all replicas, then one in
//	         the overall budget, then for a guest (an identity that no target
//	         has) one in the budget over all guests, then the order beside the stock:
//	         the depth sentence and the target's budgets are judged there, in one
//	         script; a refusal gives the reservations back. Then, in the order's
//	         goroutine: mark -> submit -> claim and store the task id -> wait
//	         for a callback, or poll, poll, poll -> settle -> give the place back
//	Adopt    finds the orders of replicas that are gone, and goes on with them
//	Callback ends the order from outside, whoever waits for it
//
// Each step in Redis is keyed by the order's id and idempotent, so that one
// whose answer was lost is sent again. The submit is not.
//
// # What an answer of the provider does to the order
//
// The table is in end.go. In short: of the provider's answers only a refusal of the submit
// gives the budgets their part back, since nothing was bought. A submit without an answer is
// kept until its time is over, because it may have been bought. Once the task is known,
// a token settles the order and a task fault, a parameter fault or the time-out removes
// it as failed; capacity and account faults are only a reason to ask again later. For an
// order that ended elsewhere this replica does nothing more.
//
// An order whose replica is gone is taken back where it was not marked, kept where it was
// marked and has no task, and collected by the replica that adopts it where its task is
// known and the account too; else that is told, and it is left to others.
//
// An order says at which account it was placed, and the stock lists all names of
// providers that have places, so that a file in which a provider has another name,
// or none, strands as little as can be.
//
// # Invariants
//
//   - An order stands in Redis before its submit leaves, is marked as about to be
//     submitted, and a submit is sent once. A submit in flight is never cut, not
//     even by a stop.
//   - A replica whose lease on an order has gone to another one submits, settles
//     and gives up nothing for it: the scripts refuse. What no script can refuse is
//     a submit of a process that was stopped between the mark's answer and the first
//     byte; such an order counts as bought all the same.
//   - The task id is stored before anything else happens with it, and belongs to
//     one order.
//   - An order whose submit was lost keeps its place in the depth, in the
//     provider's concurrency and in the budgets until its time is over, over all
//     replicas; only the local slot is freed, because nobody waits for anything
//     any more but a callback.
//   - A picture's bytes are in memory alone, and only until its submit: in no step in
//     Redis, fact, event, log line or error. An adopted order has none, and needs none.
//   - A token's age counts from the start of the last poll that found it not
//     ready, else from just before the submit; a callback's from a configured time
//     before its first arrival, where that is later than the submit.
//   - A callback is answered only when Redis or the disk has it (a dead letter; spool);
//     whatever is wrong with one is counted and harmless.
//   - Redis going away loses no paid task before the order's own deadline:
//     storing, settling and releasing are tried until then.
//   - An order never exists without the goroutine that sees it through; these are
//     bounded and recover their panics.
//   - Every Slot is freed: by Buy when it refuses, at the order's end, by
//     Adopt where nobody can see it through, or by its holder.
//
// # Points to crash at
//
// A test build can be made to kill itself (crash) at these: placed, marked, submitted,
// stored, polled, settled of an order; received, delivered, kept of a callback.
//
// # What it does not do
//
// It does not decide how many to buy (refill), what an error code means
// (provider) or how long a token lives (pool).
package purchase
