// Package kernel is what the areas of the HTTP API share: one request on its way (Call),
// the callers and targets of the current file (Access), the error answers (Problem), and
// the readers of bodies and queries.
//
// Package httpapi routes and admits a request; the areas answer it. Both import this
// package, which imports neither.
//
// # Invariants
//
//   - A Call belongs to the goroutine of its request. An Access is immutable: a new file
//     gets a new one.
//   - A Problem never quotes the request, a token or a key.
//   - A query parameter or a body field that has no meaning is refused, because it would
//     have no effect.
//   - Large bodies share one budget of memory (Bodies), whichever route reads them.
//
// Package httpapi decides which caller may use a route.
package kernel
