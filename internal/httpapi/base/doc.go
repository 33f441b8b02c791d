// Package base has what the areas of the HTTP API share: the context of a request, problems, the
// reading of requests, and the sending of tokens. Its users are package httpapi and the areas that
// httpapi imports: page and compatapi.
//
//	context.go   Context: echo's context with the caller and the target
//	access.go    the keys and the targets of a Set
//	problem.go   error responses: format and codes
//	read.go      reading of queries and bodies
//	wrongkeys.go wrong keys are counted and slowed
//	delivery.go  sends a token, and returns the token to the stock if no byte of it was sent
//	supply.go    says whether a token can come for a target
//	report.go    reports of callers on their tokens
//	conns.go     counts the bytes that each connection sent
//
// # Invariants
//
//   - A token returns to the stock only if the connection sent no byte of the response, the caller
//     cannot request the token again, and no other request shares the token.
//   - A report counts only if it comes from the caller that took the token, and only once.
//   - An error never quotes a part of the request that was not validated.
package base
