// Package historyapi answers questions about the past, and about orders in flight:
//
//	historyapi.go   orders that ended, by sitekey, task, id or day; orders in flight
//	usage.go        what owners and targets spent
//	key.go          the actions of keys on tokens, from the audit
//	arrivals.go     the arrival times of requests for the tokens of a target
//	query.go        parameters and cursors
//	answers.go      the JSON of the answers, and the same as CSV
//
// # Invariants
//
//   - A key that is limited to some targets sees only targets that the file has now.
//   - Orders in flight come from the journal, never from a store.
//   - A query to a store has a limit that leaves time to write the answer.
//
// The package writes nothing.
package historyapi
