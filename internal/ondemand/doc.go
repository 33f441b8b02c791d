// Package ondemand serves POST /solve: it returns a ready token, or buys one for the request.
//
// # Place in the flow
//
// Package httpapi calls Service.Solve, which uses the packages pool and purchase. Each solve is an
// ordinary order: it has a journal record and a lease, another replica can adopt it, and it counts
// against the budgets. The service takes each token from the stock of the identity.
//
// # Guests
//
// A guest is an identity without a target. Its stock has depth 0, so the stock's script admits one
// order for each pending ticket, over all replicas. Each pending caller has a ticket. The files
// guest.go and place.go place orders for the callers of this replica, at most one order for each
// caller. If the stock refuses an order because the depth is reached, there are enough orders. An
// order continues when its caller hangs up. The next caller then gets the token of the order.
//
// The script that ends a failed order also removes the ticket of the longest waiting caller. The
// script prefers a caller at the replica that ran the order. The take of the caller that lost its
// ticket ends with a *pool.FailedError. Each of the other callers thus still has one order. If the
// provider rejects the parameters, all callers at this replica get the error. Callers that arrive
// in the next 30 s also get the error, and the stock refuses orders for a minute.
//
// For an identity with a target, the target's worker sees the ticket and places the order.
//
// A replica keeps a guest in memory while the guest has callers or orders at this replica. After the
// guest's last token and order, Service.Run removes the guest from Redis through pool.Guests.
//
// # Shared solves
//
// Requests with `dedup: identity` claim their key (share.go). One replica holds the claim and takes a
// token under an Idempotency-Key that contains the name of the solve (hold.go). The other replicas
// call Claims.Enter for the key each second, and when a notification wakes them. The solve continues
// while a caller waits at any replica. When the holder's lease expires, another replica becomes the
// holder. The new holder uses the same Idempotency-Key, so it gets the old holder's token, even if
// the old holder had already taken the token.
//
// Only one caller of a solve gets the token as bought, even if several replicas held the claim one
// after another. All other callers get the token as shared. A holder knows that it is the first if
// it took the token and ended the claim itself. Any other holder calls Tokens.FirstHolder, which
// needs Redis but not the claim store. After this call, the holder serves all callers of its
// replica from memory.
//
// Packages redisclaims and pgclaims are the two claim stores.
//
// # What it does not do
//
// The package contains no provider's protocol, no Redis key and no HTTP. The stock's script enforces
// the depth.
package ondemand
