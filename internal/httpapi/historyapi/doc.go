// Package historyapi answers questions about the past, and about orders in flight:
//
//	historyapi.go   orders that ended, by sitekey, task, id or day; orders in flight
//	usage.go        what owners and targets spent
//	key.go          what keys did with tokens, from the audit
//	arrivals.go     when requests for the tokens of a target came
//	query.go        parameters and cursors
//	answers.go      the JSON of the answers, and the same as CSV
//
// # Invariants
//
//   - A key that is limited to some targets sees only the ones in the file.
//   - Orders in flight come from the journal, never from a store.
//   - A question to a store ends before the time for its answer does.
//
// The package writes nothing.
package historyapi
