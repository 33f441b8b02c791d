// Package httpapi hands tokens out and shows how the daemon is doing: the HTTP side of
// poold, and the only package that answers its callers in HTTP status codes.
//
// # Place in the flow
//
// pools.yaml → targets.Set → refill → purchase → provider → purchase → pool → httpapi → the caller.
// It asks the stock for a token, or package ondemand for a solve, and shows the snapshots
// of package status; it buys nothing. Two things go the other way: a caller's report on
// its token goes to the stock and the buyer, and a provider's callback to the buyer.
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
//   - A token leaves at most once: it goes back into the stock only if a
//     reload took its key or target away, or its caller hung up, before a byte of the answer was
//     written, which is known because every connection counts its written bytes, and
//     never if the request carried an Idempotency-Key or shares its solve.
//   - A caller that waited is checked again, key, scope and target, before it gets
//     its token: a reload may have changed its rights.
//   - A right key is found in the same time as a wrong one, and before wrong keys of
//     its address are counted.
//   - HEAD takes nothing; nothing that a web page of another site can send
//     takes anything or changes anything.
//   - Neither a token nor a key is in a log line, an error, a status answer or the audit,
//     which has their names.
//   - A callback needs no key and passes no check of Host or Origin: the buyer alone
//     knows whether its secret fits. Its answer does not say, and its path, query and
//     body are never logged.
//
// # Limits
//
// The package keeps counts, histograms, the rate limiters of the keys and the senders of
// recent wrong keys. It holds a token only until its answer is written, and starts no
// goroutine that outlives its request.
package httpapi
