// Package solve serves POST /solve: a ready token, or a token that is bought for the request. Takes from a target also
// use this package, because with `on_empty: solve` a token is bought for the caller.
//
// Of the tests, read stories_test.go with testdata/stories.txt and shared.txt first.
//
// # Place in the flow
//
// Package httpapi calls Solver.Solve, which takes from package pool. A guest is an identity without a target. Its
// stock has depth 0: the request leaves a ticket, and a ticket is demand for one token. The Refiller places the order;
// a picture is bought by the replica that has its bytes. If the caller hangs up, the order continues, and the next
// caller of the same identity gets the token.
//
// # Requests without a token
//
// A caller never waits for a token that cannot be bought:
//
//   - When an order fails, one caller for whom no other order is in flight gets the failure; when a service refuses the
//     parameters, all callers do. The script that ends the order sends these answers.
//   - pool.Admit refuses a request before its take if an order for the same guest has just failed, or if the rate of
//     all guests is exceeded.
//   - If an order cannot be placed because of a budget, the accounts or the identity's own brake, the
//     Buyer answers the callers at all replicas for whom no order is in flight (purchase.Refusals). Callers wait for
//     permits, and for the end of an obstacle that lasts less than pool.Patience.
//   - For a target, package httpapi says when no token can come (Request.Out).
//
// # Repeated requests
//
// Identify derives the name of a call from the caller and its Idempotency-Key. Such a call has one answer at all
// replicas until its token dies, and one ticket while it waits. If the order fails, the waiting requests get the
// failure, and a later request with the same key tries again.
//
// # Out of scope
//
// The package has no Redis key, no provider's protocol and no HTTP. It decides to buy only for pictures.
package solve
