// Package pgstore keeps records in PostgreSQL, those and the figures of their days for a
// time that the user sets.
//
// A record is a row of the table captcha_solves. In one transaction Write inserts the records
// that are missing and adds only these to the figures of their days (captcha_figures). A crash,
// a repeat or another replica with the same records counts each record exactly once. All transactions take their locks in one order, first records by
// ID, then figures by their key, so that none waits for another that waits for it.
//
// A query reads one page from an index, newest first. A query for few targets
// reads a page of each.
//
// The audit is kept in the same way: an entry is a row of captcha_audit, by key, time and
// ID, and captcha_audit_figures has the figures by day and key. It is kept for another time.
//
// Older rows are neither written nor shown, and Run deletes them in small batches. A day's figures are kept until all of the day is older. The server's clock
// judges that.
package pgstore
