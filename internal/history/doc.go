// Package history keeps how each order ended, what each key did with its tokens, and the figures of each day.
//
// Scripts of package pool append a row to the outbox in Redis in the same step in which an order ends or a token is
// handed out (pool.Row). One replica at a time sends the rows to a Sink and then removes them (Sender): neither a
// crash nor an outage of the store loses a row, unless more wait than the outbox holds, which is counted. A row that is
// sent twice counts once. The flow of tokens never waits for a store.
//
// An Order or Handout is declared once: its JSON is the text of the row in each store, the answer of the API, and
// the columns of CSV; the terminal shows the columns in cli.rowColumns.
//
// Three packages implement Sink and pass the suite of historytest:
//
//	redisstore   the daemon's Redis; keeps the history for some days
//	pgstore      PostgreSQL
//	dynamostore  DynamoDB, in a table that other programs query
package history
