// Package kernel contains the common types of all areas of the HTTP API. The common types are the
// state of a request (Call), the callers and targets of the current configuration file (Access),
// the error responses (Problem), and the readers of bodies and queries.
//
// Package httpapi finds the route of a request and admits the request; the handlers of the areas
// write the response. Package httpapi and the areas import this package. Package kernel imports
// none of these packages.
//
// # Invariants
//
//   - A Call belongs to the goroutine of its request. An Access is immutable: each new
//     configuration gets a new Access.
//   - A Problem never quotes the request, a token or a key.
//   - An unknown query parameter or body field is refused, because it would have no effect.
//   - The number of large bodies in use is limited over all routes (Pictures).
//
// Package httpapi decides which caller may use a route; this package does not.
package kernel
