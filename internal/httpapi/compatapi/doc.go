// Package compatapi speaks the two protocols of the solving services, so that their
// clients get tokens of the pool without a change of code.
//
//	compatapi.go   what both protocols do: authenticate, submit, poll, report, balance
//	legacy.go      /in.php and /res.php
//	tasks.go       /createTask and the other routes of that protocol
//	terms.go       on which terms a caller gets a token
//	lost.go        submits whose answer did not reach the client
//
// Package wire reads and writes both protocols, package compat keeps the tasks, and
// package delivery sends the tokens.
//
// # Invariants
//
//   - The key is in the call. A wrong one is counted for its address, as on all routes.
//   - The answer to a call that could be read is one of its protocol, with status 200.
//   - A parameter that would have no effect is refused.
package compatapi
