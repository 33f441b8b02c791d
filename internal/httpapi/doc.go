// Package httpapi implements the HTTP API of poold: it hands out tokens and shows the state of the
// daemon.
//
// # Place in the flow
//
// pools.yaml → targets.Set → refill → purchase → provider → purchase → pool → httpapi → the caller.
// The package takes tokens from the pool, requests solves from package solve, and publishes the
// snapshots of package status. The package itself buys nothing. Two kinds of requests flow in the
// other direction: a caller's report on a token goes to the stock and the buyer, and a provider's
// callback goes to the buyer.
//
// # A request
//
// The router echo only finds the route; routes.go lists all routes. Server.serve then takes these
// steps in order:
//
//  1. it identifies the caller: a key with scopes and target globs (auth.go), or, if the
//     configuration file has no keys, a program on this machine (origin.go);
//  2. it finds the target, if the caller's globs include it;
//  3. it calls the handler of the route, which returns nil or an error;
//  4. it writes an error as application/problem+json (errors.go chooses the problem, package kernel
//     defines the format and the codes).
//
// # Areas
//
// Each area of the API is a small type; its methods are the handlers, and its fields are the parts
// that these handlers use. Each interface is declared beside the type that uses it.
//
//	tokens     token.go       the route that hands out tokens
//	solves     solve.go       the route for solves on demand
//	admin      admin.go       the actions of operators
//	callbacks  callback.go    callbacks of the solving services
//	events     events.go      the list of events
//	scrapes    scrape.go      /metrics; metrics.go has the counts of this replica
//	probes     health.go      /healthz and /readyz
//
// The other areas are packages that do not import each other:
//
//	page        the status as HTML and as JSON
//	historyapi  ended orders, spending, and the actions of keys
//	compatapi   the protocols of the solving services
//
// All areas share two packages: delivery sends tokens to callers and receives their reports; kernel
// has the types for calls, callers and problems, and the functions that read requests.
//
// # Invariants
//
//   - A token is handed out at most once. A taken token returns to the stock only if no byte of the
//     response was written. There are two reasons for a return: a reload removed the caller's key
//     or the target, or the caller hung up. Each connection counts its written bytes. The token
//     never returns if the request has an Idempotency-Key or shares its solve.
//   - After a wait, the caller's key, scope and target are checked again before the token is sent:
//     a reload may have changed the caller's rights.
//   - Checking a key takes the same time for right and wrong keys. A right key is accepted even if
//     its address has sent too many wrong keys.
//   - HEAD takes no token. A request that a web page of another site caused takes no token and
//     changes nothing.
//   - Log lines, errors, status responses and the audit contain no token and no key. The audit
//     contains the ids of tokens and the names of keys.
//   - A callback needs no key, and its Host and Origin are not checked: the buyer checks its
//     secret. The response to a callback is the same for a right and a wrong secret. The path,
//     query and body of a callback are never logged.
//
// # Limits
//
// The package keeps counts, histograms, the rate limiters of the keys, and the addresses that
// recently sent wrong keys. The package holds a token only until the response is written. The
// package starts no goroutine that outlives the request.
package httpapi
