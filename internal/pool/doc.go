// Package pool is WHERE tokens wait: the stock of every identity, in Redis.
//
// It stands between purchase, which places orders and lands tokens, and
// httpapi, which takes them. It knows nothing of targets, providers or HTTP.
//
// A Store has these faces, which share one Redis (internal/redisdb):
//
//	Tokens     takes and returns (tokens.go, take*.go, returns.go, repeat.go), the state of
//	           stocks (look.go), reports (report.go)
//	Orders     orders until they end (orders.go), their leases (leases.go), many of them in one
//	           exchange, budgets (budget.go)
//	Controls   pauses, windows (warm.go) and the learned state of an identity
//	Guests     identities without a target: guests.go, retire.go
//	Replicas   the live replicas, and the status that each shares (replicas.go)
//	Endings    the ends of orders, until the history has them (endings.go)
//
// Beside them are the news between replicas (client.go) and the signing of tokens' names
// (signer.go). Each step that must be atomic is a script in lua/; its header declares the
// names of its keys, arguments and reply (redisdb.Script). A queue of callers that is idle
// for a minute is dropped (tokens.go).
//
// The keys and the formats of their values are in lua/README.md.
//
// # Invariants
//
//   - Facts are stored, policy is applied on read: an element says when the
//     token was born and when it truly dies; the margin comes with each call.
//   - Life is judged by Redis' TIME inside the scripts, never by this process'
//     clock. Durations go in, moments stay there; a token's birth is counted from
//     when its order was placed, so that a landing that comes late is no younger.
//   - A take can be sent twice, where its answer was lost. Each replica numbers
//     its takes of an identity and has one under way at a time, and the script
//     repeats the answer to the last number and refuses older ones. So nothing
//     vanishes and nothing is given twice. What Redis refuses was not carried out,
//     so that the next take need not wait for it.
//   - A script reads each key by its type before it writes anything, so that a
//     foreign value ends it with nothing done. Those that hand out, take back or
//     end what was paid for begin with a write that needs no memory: Redis refuses
//     a script only at its first write.
//   - A token that cannot be taken back now is taken back later, while the replica
//     runs and the token lives. No caller of Return waits for it.
//   - A process keeps nothing of an identity that nobody asked for in the last
//     minute, and no mutex over an exchange with Redis.
//   - A text lives once in an identity: a landing with the text of a token that is
//     not dead yet, taken or not, ends its order as failed. Texts of pictures may come
//     again (Landing.Repeats).
//   - An order ends once: the script that removes it appends the token.
//   - What a replica does for an order (submit, settle by polling, give up) is
//     checked against the order's owner in the script that writes it. A lease
//     that ended lets another replica become the owner; a replica that was
//     stopped for that long can then do nothing more for the order, but for one
//     thing: the replica that stores the task id becomes the owner. Callbacks need no lease.
//   - The figures balance in every answer of look.lua (Figures says how), because
//     each script moves a token or an order and its counts in one step, and the
//     keys that they are in live as long as the figures.
//   - A guest's figures are in the row of all guests once, whoever dies over it: they
//     are set apart under a name of their own in one step, added to the row in
//     another that knows the names, and then forgotten. A survey of the guests finds
//     each in one of the three places. So they are where a target takes the identity over
//     (Guests.Leave): its figures begin with what it took over as bought, which the
//     guests count as discarded, so that both balance and neither goes back.
//   - What a target leaves, and what was counted of it, is nobody's when the file has it
//     no more: it is forgotten in two days. Where it is asked for as a guest before that,
//     it is the guests', whose counters rise by it.
//   - A budget's span slides by the millisecond: what is in it are the orders
//     themselves. Only an order that was provably not bought leaves it early.
//   - A window that is over is never told: each script that reads the windows
//     judges their ends, and removes what is over. Warm twice leaves one window, so
//     its script may be sent twice.
//   - Bookings in budgets and figures of guests may be sent twice: each counts once.
//   - A caller with a ticket is never overtaken by one that could use the same
//     token, whichever replica it asked. A ticket that several replicas hold is
//     given up with its last caller.
//   - A failed order of a guest and the ticket of the caller that lacks it go in one step
//     (ending.lua), so that no replica places another one for it. The caller, named by
//     ticket and arrival, hears of it in its next take.
//
// # Limits
//
// No script walks the list: counting is a binary search, a take comes off the
// front. Only a take with a min_ttl makes Redis skip the older tokens. What
// Redis itself loses (a failover, a restart without AOF) is lost here. Its clock
// may be set back by the margin; by more, and the stock is thrown away once its
// newest token is seen to be born in the future.
package pool
