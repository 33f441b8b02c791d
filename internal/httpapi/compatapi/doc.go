// Package compatapi serves the two protocols of the solving services. Clients of these services can
// therefore get tokens from poold without a change of code.
//
//	compatapi.go   the common part of both protocols: authenticate, submit, poll, report, balance
//	legacy.go      /in.php and /res.php
//	tasks.go       /createTask and the other routes of that protocol
//	terms.go       the terms on which a caller gets a token
//	refusals.go    error responses: codes, explanations, and their log lines
//
// Package wire encodes and decodes both protocols, package compat keeps the tasks, and package
// base sends the tokens.
//
// # Invariants
//
//   - A client sends its key as a parameter of the call. Wrong keys are counted by address,
//     together with the wrong keys on all other routes.
//   - If the body of a call could be read, the response has status 200 and the format of the
//     protocol, even for an error.
//   - A parameter that poold does not support is refused, unless it changes neither the solution nor
//     how the client gets it (wire.Order.Ignored).
//   - Each refusal is one log line with the caller and the fields that cause it; equal refusals of a
//     caller are logged once a minute.
package compatapi
