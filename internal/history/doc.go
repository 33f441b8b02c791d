// Package history records how each order ended, the figures of each day, and the use of tokens by key.
//
// The scripts of pool that end an order append a line to an outbox beside the stock, in the same step (pool.Endings).
// A Sender copies these lines to a Store and then removes them, so that neither a crash nor an outage of the store
// loses a line. A line may be sent twice; a Store counts it once. A Mirror copies the orders under way to stores that
// other programs read.
//
// The audit records which key took which token. An Auditor queues its entries in memory, so that no caller waits, and
// writes them to an Audit in batches. A killed process loses its queue; entries that find the queue full are dropped
// and counted.
//
// Arrivals counts requests by their time, for a day, and writes the counts to Redis periodically, whichever store the
// records have.
//
// Three packages implement Store and Audit, and pass the suites of historytest:
//
//	redisstore   the daemon's Redis, for some days
//	pgstore      PostgreSQL
//	dynamostore  DynamoDB
package history
