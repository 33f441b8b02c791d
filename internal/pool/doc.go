// Package pool keeps the stock of each identity in Redis: the tokens, the orders in flight and the
// queue of callers that wait for a token.
//
// Package purchase places orders and stores their tokens here; package httpapi takes the tokens.
// Package pool has no code for targets, providers or HTTP. A Store consists of the following parts,
// which share one Redis:
//
//	Tokens     hand-outs (tokens.go, take*.go, repeat.go), returns (returns.go), the state of the
//	           stock (look.go), reports on tokens (report.go)
//	Orders     orders in flight (orders.go), their facts (facts.go), leases (leases.go) and
//	           budgets (budget.go)
//	Controls   pauses (controls.go) and the learned state of an identity
//	Guests     identities without a target (guests.go, retire.go)
//	Replicas   the live replicas and their status (replicas.go)
//	Endings    the ends of orders until the history has stored them (endings.go)
//
// Each atomic step is a script in lua/. lua/README.md describes the keys and their formats.
//
// # Invariants
//
//   - Scripts compare times on Redis' clock only. Go passes durations, or times that it read from
//     Redis.
//   - The list of tokens stores the birth and the death of each token. It does not store the
//     margin, which each call passes.
//   - A replica may send the same take twice. take.lua stores its last reply for each identity and
//     replica, and repeats this reply for a retry. It refuses older calls. So no token is lost or
//     handed out twice.
//   - A script checks the type of each key before its first write. A script that hands out, returns
//     or discards a paid token begins with a write that needs no memory. Redis without free memory
//     refuses a script only if the script's first write needs memory.
//   - An identity never has two unexpired tokens with the same text (except with Landing.Repeats).
//   - An order ends once: the script that removes the order also adds its token or counts its
//     failure.
//   - A replica can mark an order as submitting, settle it or remove it only while the replica owns
//     the lease. A replica that stores the task id becomes the owner. A callback ends an order
//     without a lease.
//   - The equation in the comment of Figures holds in each reply of look.lua. A script that moves a
//     token or an order counts the move in the same step.
//   - The common row of all guests includes the figures of a former guest once. If a target takes
//     over a guest's identity, the target counts the guest's tokens and bought orders as bought,
//     and the row counts them as discarded.
//   - The figures of a removed target expire after two days. If the identity becomes a guest
//     earlier, the figures become the guest's figures.
//   - A budget counts the orders of a sliding window. Only an order that was not bought leaves the
//     budget early.
//   - Callers with tickets are served in the order of their arrival, over all replicas. One step
//     ends a guest's failed order and removes the ticket of the caller whose wait the failure ends.
//   - A process drops the queue of an identity after one or two minutes without calls. No goroutine
//     holds a mutex during an exchange with Redis.
//
// # Limits
//
// No script scans the list of tokens, except a take with a min_ttl. Writes that Redis loses
// (failover, restart without AOF) are lost, because no other copy exists.
//
// If Redis' clock goes back by more than the margin, the stock is discarded, because the birth of
// its newest token is then in the future. If the clock goes back by more than 10 s, the stored
// tickets, leases and heartbeats become invalid; live replicas renew their own.
package pool
