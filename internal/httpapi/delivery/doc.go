// Package delivery brings a token to its caller, or back to the stock, and counts what
// the caller reports on it. The routes for tokens, for solves and for the clients of
// solving services share it.
//
//	deliver.go   writes the answer, and returns the token if no byte of it was sent
//	conns.go     counts the bytes that each connection sent
//	supply.go    ends the wait of a caller for whom no token can come
//	report.go    the routes of the reports
//	audit.go     notes which key took, bought or reported a token
//	solveid.go   the id of a token of /solve, and the terms of a guest
//
// # Invariants
//
//   - A token returns to the stock only if the connection sent no byte since the answer
//     began, the caller cannot ask for the token again, and no other request shares it.
//   - A report counts only for the caller that took the token, and once.
//
// The package takes no token from the stock and buys none.
package delivery
