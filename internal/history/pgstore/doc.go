// Package pgstore keeps records in PostgreSQL, those and the figures of their days for a
// time that the user sets.
//
// A record is a row of the table captcha_solves. Write inserts those of a batch that are
// not there yet and adds these alone to the figures of their days (captcha_figures), in
// one transaction: a crash, a repeat or another replica with the same records counts none
// twice, and none never. All transactions take their locks in one order, first records by
// ID, then figures by their key, so that none waits for another that waits for it.
//
// A query reads one page from an index, newest first. One that is limited to few targets
// reads a page of each.
//
// The audit is kept in the same way: an entry is a row of captcha_audit, by key, time and
// ID, and captcha_audit_figures has the figures by day and key. It has a time of its own.
//
// What is older than its time is not written, not shown, and deleted by Run in small
// batches. A day's figures are kept until all of the day is older. The server's clock
// judges that.
package pgstore
