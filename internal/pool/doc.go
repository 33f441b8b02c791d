// Package pool keeps the stock of each identity in Redis: its tokens, its orders and the calls
// that wait for a token.
//
// purchase places orders and lands tokens here, and httpapi takes them. pool knows nothing of
// targets, providers or HTTP. A Store has these parts, which share one Redis:
//
//	Tokens     takes and returns (tokens.go, take*.go, returns.go, repeat.go), stocks (look.go),
//	           reports (report.go)
//	Orders     orders until they end (orders.go) with their facts (facts.go), their leases
//	           (leases.go), budgets (budget.go)
//	Controls   pauses, windows (warm.go) and the learned state of an identity
//	Guests     identities without a target (guests.go, retire.go)
//	Replicas   the live replicas and their status (replicas.go)
//	Endings    the ends of orders until the history has them (endings.go)
//
// Each atomic step is a script in lua/. The keys and their formats are in lua/README.md.
//
// # Invariants
//
//   - A script compares times on Redis' clock. Durations go in; moments stay in Redis.
//   - An element stores when its token was born and expires. Each call brings its margin.
//   - A take may be sent twice. The script repeats the answer to the last call of a replica for
//     an identity and refuses older calls, so no token is lost or handed out twice.
//   - A script checks the type of each key before its first write, and begins with a write that
//     needs no memory if it hands out, returns or ends a paid token: Redis refuses a script only
//     at its first write.
//   - An identity never has two living tokens with the same text (except Landing.Repeats).
//   - An order ends once: the script that removes it adds the token or counts the failure.
//   - A replica can mark, settle or remove an order only while it owns the lease. Storing the task
//     id takes the lease back. Callbacks need no lease.
//   - The figures balance in each answer of look.lua (see Figures), because each script moves a
//     token or an order together with its counts.
//   - The row of all guests counts the figures of a guest once. If a target takes the identity
//     over, it counts the guest's tokens and orders as bought, and the guests count them as
//     discarded.
//   - The figures of a target without a replica expire in two days, or move to the guests.
//   - A budget counts the orders of a sliding window. Only an order that was not bought leaves it
//     early.
//   - A caller with a ticket is never overtaken at any replica. The failed order of a guest and
//     the ticket of its caller end in one step.
//   - A process keeps no state of an identity without calls in the last minute, and holds no
//     mutex during an exchange with Redis.
//
// # Limits
//
// No script walks a list, except a take with a min_ttl. If Redis loses writes (failover, restart
// without AOF), they are lost here.
//
// If Redis' clock goes back by more than the margin, the stock is discarded, because the birth of
// its newest token is then in the future. If the clock goes back by more than 10 s, earlier
// tickets, leases and heartbeats are void; live replicas renew theirs.
package pool
