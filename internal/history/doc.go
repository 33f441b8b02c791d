// Package history records how each order ended, the figures of each day, and which key used which
// token.
//
// Package pool ends each order with a Redis script. In the same atomic step, this script appends a
// line to an outbox in Redis (pool.Endings). A Sender copies these lines to a Store and then
// removes them from the outbox. Therefore neither a crash nor an outage of the store loses a line.
// If a line is sent twice, a Store counts it once. A Mirror copies the orders in flight to stores
// that other programs read.
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
