// Package history is WHAT happened: how each order ended, the figures of each day, and who
// took which token.
//
// The end of an order is written where it ends: the scripts of pool that end one leave a
// line beside the stock, in the same step (pool.Endings). A Sender brings these lines to
// a Store and removes them once they are there, so that neither a crash nor a store that
// is away loses one. A line can be sent twice; a Store counts it once. A Mirror shows what
// is under way where the store has a place for that, for programs that read it by
// themselves.
//
// Who took what is the audit: an Auditor has a queue in memory, so that no caller waits, and
// writes it to an Audit in batches. What a process that is killed had queued is lost, and
// what does not fit is dropped and counted.
//
// When requests come is counted beside the hot path and written every some seconds
// (Arrivals), for a day, into Redis whatever the Store is.
//
// Each store is a Store and an Audit:
//
//	redisstore   the daemon's own Redis, for some days
//	pgstore      PostgreSQL
//	dynamostore  DynamoDB
//
// and historytest has the suites that each of them passes.
package history
