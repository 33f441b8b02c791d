// Package historyapi contains the routes of the history and of the orders in flight:
//
//	historyapi.go   orders that ended, by sitekey, task, id or day; orders in flight
//	usage.go        what owners and targets spent
//	key.go          the actions of keys on tokens, from the audit
//	query.go        parameters and cursors
//	answers.go      the JSON of the answers, and the same as CSV
//
// # Invariants
//
//   - A key that is limited to some targets sees only targets in the current configuration file.
//   - Orders in flight are read from the journal, never from a store of the history.
//   - The time limit of a query to a store leaves time to write the response.
//
// The package changes no data.
package historyapi
