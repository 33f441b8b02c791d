// Package history records how each order ended, the figures of each day, and which key used which
// token.
//
// Package pool ends each order with a Redis script. In the same atomic step, this script appends a
// row to an outbox in Redis (pool.Row). A Sender copies these rows to a Store and then removes them
// from the outbox. Therefore neither a crash nor an outage of the store loses a row, unless too many
// wait. If a row is sent twice, a Store counts it once. To stores that other programs read, it also
// copies the orders in flight (ActiveStore).
//
// The audit records which key took which token. An Auditor queues the entries of the audit in memory
// and writes them to an Audit in batches, so that no caller waits. A killed process loses its queue.
// If the queue is full, new entries are dropped and counted.
//
// Three packages implement Store and Audit, and pass the suites of historytest:
//
//	redisstore   the daemon's Redis; keeps the history for some days
//	pgstore      PostgreSQL
//	dynamostore  DynamoDB
package history
