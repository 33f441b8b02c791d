// Package httpapi is the HTTP API of poold: it hands tokens out and shows the state of the daemon.
//
// # Place in the flow
//
// pools.yaml → targets.Set → refill → purchase → provider → purchase → pool → httpapi → the caller.
// It asks the stock for a token, or package ondemand for a solve, and shows the snapshots of
// package status. It buys nothing itself. Two requests flow in the other direction: a caller's
// report on its token goes to the stock and the buyer, and a provider's callback to the buyer.
//
// # A request
//
// echo only finds the route; routes.go lists all of them. Server.serve then does, in
// this order:
//
//  1. it finds the caller: a key with scopes and target globs (auth.go), or, if the file
//     has no keys, a program on this machine (origin.go);
//  2. it finds the target, within the globs of the caller;
//  3. it calls the handler of the route, which returns nil or an error;
//  4. an error becomes application/problem+json in one place (errors.go chooses the
//     problem, package kernel has its form and the codes).
//
// # Areas
//
// Handlers are methods of a small type for each area, which holds what that area needs
// and nothing else. The interfaces are declared beside the type that uses them.
//
//	tokens     token.go       hands out tokens
//	solves     solve.go       one solve, now
//	admin      admin.go, warm.go
//	                          what an operator does
//	callbacks  callback.go    what the solving services send
//	streams    stream.go      the status as it changes
//	scrapes    scrape.go      /metrics; metrics.go counts for it
//	probes     health.go      /healthz and /readyz
//
// Other areas are packages, which do not import each other:
//
//	page        the status for people and programs
//	historyapi  orders that ended, spending, the actions of keys
//	compatapi   the protocols of the solving services
//
// They share delivery, which brings tokens to callers and takes their reports, and
// kernel, which has the call, the callers, the problems and the readers of requests.
//
// # Invariants
//
//   - A token is handed out at most once. It returns to the stock only if a reload removed its key
//     or target, or its caller hung up, before any byte of the answer was written; each connection
//     counts its written bytes. It never returns if the request has an Idempotency-Key or shares
//     its solve.
//   - After a wait, the caller's key, scope and target are checked again before it gets its token:
//     a reload may have changed its rights.
//   - The check of a key takes the same time for right and wrong keys. A right key is accepted even
//     if its address has sent too many wrong ones.
//   - HEAD takes no token. A request that a web page of another site can send neither takes nor
//     changes anything.
//   - Log lines, errors, status answers and the audit contain no token and no key. The audit has
//     their names.
//   - A callback needs no key, and its Host and Origin are not checked: the buyer checks its secret.
//     The answer does not depend on that check. Its path, query and body are never logged.
//
// # Limits
//
// The package keeps counts, histograms, the rate limiters of the keys and the senders of
// recent wrong keys. It holds a token only until its answer is written, and starts no
// goroutine that outlives its request.
package httpapi
