// Package ondemand serves POST /solve: one solve, now.
//
// # Place in the flow
//
// httpapi calls Service.Solve, which uses pool and purchase. Each solve is an
// order like any other, with its journal, lease, adoption and budgets. Each token comes from the
// stock by a take.
//
// # Guests
//
// A guest is an identity without a target. Its stock has depth 0, so the stock's script admits one
// order for each pending ticket, over all replicas. A caller takes with a ticket, and guest.go and
// place.go place orders for the callers of this replica: at most one for each call. A refusal
// because of the depth means that there are enough orders. An order outlives its caller; its token
// serves the next caller.
//
// The script that ends a failed order also ends the ticket of the longest waiting caller, at the
// replica that ran the order if a caller waits there. That caller's take ends with a
// *pool.FailedError, so no other call lacks the order. If the provider rejects the parameters, all
// callers here get the error, and so do callers of the next 30 s; the stock refuses orders for a
// minute.
//
// An identity with a target is left to the target's worker, which sees the ticket.
//
// A guest is in memory while it has callers or orders here. In Redis, Run retires it through
// pool.Guests after its last token and order.
//
// # Shared solves
//
// Requests with `dedup: identity` claim their key (share.go). One replica holds the claim and takes
// a token under an Idempotency-Key with the name of the solve (hold.go). The others enter each
// second, and when they are woken. The solve belongs to the claim: it goes on while a caller waits
// at any replica. A holder without a lease is replaced. Because the Idempotency-Key stays, the new
// holder gets the token of the old holder's order, even if that holder had taken it.
//
// One caller of a solve gets the token as bought, and all others as shared, over all holders. A
// holder that ended the claim with its own token knows that it is the first. Other holders ask
// Tokens.FirstHolder in Redis, which works while the claim store is away. Then the holder serves all
// callers of its replica from memory.
//
// Packages redisclaims and pgclaims are the two claim stores.
//
// # What it does not do
//
// It knows no provider's protocol, no Redis key and no HTTP. The stock's script decides the depth.
package ondemand
