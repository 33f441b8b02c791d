// Package pgstore keeps the history in PostgreSQL, for a time that the operator sets.
//
// Each row of the history is a row of the table captcha_history. In one transaction Append inserts the missing rows and
// adds only these to the figures of their days (captcha_days). Therefore each row counts once, in spite of crashes,
// retries and concurrent replicas. All transactions lock rows in the order of their kinds and IDs, and then figures in
// the order of their keys, so they cannot deadlock.
//
// A query reads one page from an index, newest first. A query for a few targets reads one page for each of them.
//
// Expired rows are neither written nor found, and Tables.Run deletes them in small batches. Ages are measured with the
// server's clock.
package pgstore
