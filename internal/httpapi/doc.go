// Package httpapi hands tokens out and tells how the daemon is doing: the HTTP
// side of poold, and the only package that knows HTTP status codes.
//
// # Place in the flow
//
// pools.yaml → targets.Set → refill → purchase → provider → pool → httpapi →
// the caller. It asks the stock for a token and shows what the others report;
// it buys nothing and decides nothing about buying. Two things come the other
// way: a caller's report on its token goes to stock and buyer (report.go), and a
// provider's callback to the buyer (callback.go).
//
// # A request
//
// echo only finds the route (routes.go). Server.serve then does, in this order:
//
//  1. who is asking: a key with scopes and target globs (auth.go), or, where
//     the file holds no keys, a caller on this machine who is not a web page of
//     another site (origin.go);
//  2. is the target's name well-formed, within the caller's globs, in the file;
//  3. the handler of the route, which returns nil or an error;
//  4. an error becomes application/problem+json in one place (errors.go).
//
// # Invariants
//
//   - A token leaves at most once: it goes back into the stock only if its
//     caller hung up before a single byte of the answer was written, which is
//     known because every connection counts its written bytes (conns.go), and
//     never if the request carried an Idempotency-Key.
//   - A caller that waited is checked again, key, scope and target, before it gets
//     its token: a reload may have changed its mind.
//   - A right key is found in the same time as a wrong one, and before wrong keys of
//     its address are counted.
//   - HEAD takes nothing; nothing that a web page of another site can send
//     takes anything or changes anything.
//   - Neither a token nor a key is in a log line, an error or a status answer.
//   - /status, /status.json, GET /pool/{target} and the state in /metrics come
//     from one snapshot (snapshot.go), so they cannot disagree.
//   - A callback needs no key and passes no check of Host or Origin: the buyer alone
//     knows whether its secret fits. Its answer does not tell, and its path, query
//     and body are never logged.
//   - The status routes answer within a second, also while Redis does not.
//
// # What it does not do
//
// It keeps no state but counts and histograms, the rate limiters of the keys, who
// sent wrong keys lately and what it last read for a status; it holds no token
// longer than it takes to write it or to pass it on, and starts no goroutine that
// outlives the request it serves.
package httpapi
