// Package solve serves POST /solve: a ready token, or a token that is bought for the request. The takes of a target
// pass it, too, because on_empty: solve buys for them.
//
// # Place in the flow
//
// Package httpapi calls Service.Solve, which takes from package pool. A guest is an identity without a
// target. Its stock has depth 0: the request leaves a ticket, and a ticket is demand for one token. The
// Refiller places the orders; a picture is bought by the replica that has its bytes. An order goes on when its
// caller hangs up, and the next caller gets its token.
//
// # Requests without a token
//
// A caller never waits for a token that cannot be bought:
//
//   - A failed order answers one caller whom no other order serves, and refused parameters answer all: the
//     script that ends the order does so.
//   - A request for a guest that has just failed is refused before its take, as is one beyond the rate of all
//     guests (pool.Admit).
//   - If an order cannot be placed because of a budget, the accounts or the identity's own brake, the Buyer of
//     this package answers the callers that no order serves, at all replicas (pool.Refuse). Callers wait for the
//     end of an obstacle that lasts less than pool.Patience, and for permits.
//   - For a target, the caller of Solve says when no token can come (Request.Out).
//
// # Repeated requests
//
// Identify derives the name of a call from the caller and its Idempotency-Key. Such a call has one answer at
// all replicas until its token dies, and one ticket while it waits. If its order fails, the requests that wait
// learn it, and a later request with the key tries again.
//
// # Out of scope
//
// The package has no Redis key, no provider's protocol and no HTTP. It places no order but for pictures.
package solve
