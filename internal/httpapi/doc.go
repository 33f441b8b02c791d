// Package httpapi implements the HTTP API of poold: it hands out tokens and shows the state of the
// daemon.
//
// # Place in the flow
//
// pools.yaml → targets.Set → refill → purchase → provider → purchase → pool → httpapi → the caller.
// The package takes tokens from the pool, requests solves from package solve, and publishes the
// documents of package status. The package itself buys nothing. Two kinds of requests flow in the
// other direction: a caller's report on a token goes to the pool and the buyer, and a provider's
// callback goes to the buyer.
//
// # A request
//
// The router is echo. middleware.go has the functions that run for each request: echo's request id, access log,
// recovery and headers. routes.go is one table: method, path, scope and handler of each route. Before the handler,
// Server.admit (auth.go)
//
//  1. finds the caller: a key with scopes and target globs, or, if the configuration file has no keys,
//     a program on this machine;
//  2. finds the target, if the caller's globs include it;
//  3. refuses a body that the handler would not read.
//
// A handler takes a Context: echo's context with the caller and the target. It writes the response
// or returns an error. Server.respondError (errors.go) writes each error as application/problem+json.
//
// # Files
//
//	token.go, solve.go  hand out tokens, and solves on demand
//	compatible.go       the protocols of the solving services: authenticate, submit, poll, report, balance, their terms
//	refusals.go         error replies of these protocols: codes, explanations, and their log lines
//	admin.go            the actions of operators, and the list of events
//	probes.go           /healthz and /readyz, callbacks of the solving services, profiles
//	metrics.go          /metrics: the counts of this replica, and the figures of the status
//	server.go           the Server, its routes and limits
//	statuspage.go       the page, /status.json, and a target's part of it
//	auth.go             who sends a request, and which target it names; wrong keys are counted and slowed
//	errors.go           error responses: format, codes, and the problems for all errors
//	history*.go         ended orders, spending, and the actions of keys
//	context.go          Context: echo's context with the caller and the target
//	access.go           what each key of a Set may use
//	read.go             reading of queries, the kinds of their parameters, and bodies
//	supply.go           says whether a token can come
//	delivery.go         sends a token, or returns it if its connection sent no byte
//	report.go           reports of callers on their tokens
//
// Of the tests, read token_test.go first.
//
// Package page renders the status as HTML. Package wire encodes and decodes the protocols of the solving services, and
// package compat keeps their tasks.
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
//   - A report counts only if it comes from the caller that took the token, and only once.
//   - A client of the services' protocols sends its key as a parameter. If the body of its call could be read, the
//     response has status 200 and the format of the protocol, even for an error.
//   - A parameter of a client that poold does not support is refused, unless it changes neither the solution nor how
//     the client gets it. Equal refusals of a caller are logged once a minute.
//   - An error never quotes a part of the request that was not validated.
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
