// Package delivery sends a token to its caller or returns it to the stock, and counts the caller's
// report on the token. The routes for tokens, for solves and for the clients of solving services
// share this package.
//
//	deliver.go   writes the answer, and returns the token if no byte of it was sent
//	conns.go     counts the bytes that each connection sent
//	supply.go    says whether a token can come for a target
//	report.go    the routes of the reports
//	audit.go     records which key took, bought or reported a token
//	solveid.go   the id of a token of /solve, and the terms of a guest
//
// # Invariants
//
//   - A token returns to the stock only if the connection sent no byte of the response, the caller
//     cannot request the token again, and no other request shares the token.
//   - A report counts only if it comes from the caller that took the token, and only once.
//
// The package takes no token from the stock and buys none.
package delivery
