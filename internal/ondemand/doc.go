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
// The script that ends a failed order also removes the ticket of the longest waiting caller. It
// prefers a caller at the replica that ran the order. The take of that caller ends with a
// *pool.FailedError, so the other callers still have one order each. If the provider rejects the
// parameters, all callers at this replica get the error, also new ones in the next 30 s. The stock
// refuses orders for a minute.
//
// An identity with a target is left to the target's worker, which sees the ticket.
//
// A guest is in memory while it has callers or orders here. In Redis, Run retires it through
// pool.Guests after its last token and order.
//
// # Shared solves
//
// Requests with `dedup: identity` claim their key (share.go). One replica holds the claim and takes
// a token under an Idempotency-Key with the name of the solve (hold.go). The other replicas enter
// the claim each second, and when they are woken. The solve continues while a caller waits at any
// replica. When the holder's lease expires, another replica becomes the holder. It uses the same
// Idempotency-Key, so it gets the old holder's token, even if that holder had taken it.
//
// Over all holders, one caller of a solve gets the token as bought and all others get it as shared.
// A holder that ended the claim with its token is the first holder. Any other holder asks
// Tokens.FirstHolder, which needs Redis but not the claim store. Then the holder serves all callers
// of its replica from memory.
//
// Packages redisclaims and pgclaims are the two claim stores.
//
// # What it does not do
//
// It knows no provider's protocol, no Redis key and no HTTP. The stock's script decides the depth.
package ondemand
