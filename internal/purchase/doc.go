// Package purchase carries each order from its placing to its end: it places the order in the journal
// (package pool), submits it to a solving service (package provider), waits for a callback or polls, and
// lands the token. It also goes on with the orders of dead replicas.
//
// Package refill, and package solve for pictures, decide what to buy, and call Buyer.Buy in a goroutine of
// their own. The parts:
//
//	buyer.go     Buy; orders of dead replicas, orders past their deadline, the stop
//	order.go     an order, its journal entry, its row in the history, the table of ends; submit and polls
//	accounts.go  the providers of the file and the former ones; which one gets an order
//	brakes.go    what calls say about an account: its brake and the events
//	providers.go  the state, thread limit and balance of a provider; probes
//	callback.go  callbacks and dead letters
//	report.go    reports of callers for the services
//	refusals.go  what callers are told if no order can be placed
//
// Of the tests, read TestEnds (order_test.go) and testdata/ends.txt first.
//
// # The types of an order
//
//	pool.Order     what place stores; pool.JournalEntry is an Order in the journal, pool.End what ends it
//	order          an order that runs at this replica: a pool.Order with its facts and times
//	facts          the JSON in the journal, with all that an adopter needs
//	Purchase       the part of the facts that the history gets: a row; history.Order is a row that was read
//	OrderInFlight  a Purchase with its state, for lists
//
// # The life of an order
//
//	placed      pool.Place has stored the order, with its permit and its part of the budgets
//	submitting  pool.Begin has returned: the submit may have been sent
//	bought      the task is known: a poll, a callback, the answer to the submit or the deadline ends the order
//	unknown     the submit had no answer: the order counts as bought until its deadline, unless a
//	            callback ends it before; the deadline is now a provider's timeout away (pool.Order.UnknownLife)
//
//	placed ── Begin ──▶ submitting ── Bought ─────▶ bought ── a poll, a callback ──────▶ ended
//	                         └─────── Unanswered ─▶ unknown ── a callback, the deadline ──┘
//
// An order can also end from placed and submitting: the service or the account refused it, this replica stopped, or the
// deadline passed. The table in order.go says what ends an order in which state, and how. A crash, a panic or a lost
// answer of Redis may leave an order behind. Its owner, or the replica that has taken the order over, finds it with one
// of its next beats, and resumes it by the same table.
//
// # Rules
//
//   - A submit is never repeated. Redis has answered Begin before the submit is sent; afterwards its task is stored, or
//     that it got no answer. Neither a stop nor the end of a context cancels a submit in flight.
//   - Only the owner of an order may begin its submit. Before the deadline, only the owner or a callback may say that
//     the order brought nothing. Any replica that has the token may land it.
//   - The age of a token counts from the last poll that was answered "not ready", else from the submit. A
//     callback brings a token that is at most callback_delay old, counted from the callback's first
//     arrival.
//   - Polls use the account's present key. If the service refuses this key or does not know the task, the poll is
//     repeated with the key that submitted the order, if the file or this replica's memory still has it.
//   - The brake of an account belongs to its key: a fault of a former key stops nothing.
//   - A callback is answered only after Redis or the disk has stored it.
//   - The bytes of a picture are kept only in memory, and only until the submit.
//   - A panic in one order does not affect other orders.
//
// # Crash points
//
// Tests can kill the process (package crash) at placed, submitted, bought and ended of an order, and at
// received of a callback.
//
// # Out of scope
//
// It does not decide how much to buy (refill), what an error code means (provider) or how long a token
// lives (targets). An adopted order whose account no file has any more waits for a reload until its
// timeout; it is not passed on to a replica with an older file.
package purchase
