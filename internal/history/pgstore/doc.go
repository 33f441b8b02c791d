// Package pgstore keeps the history in PostgreSQL, for a time that the operator sets.
//
// A record is a row of captcha_solves. In one transaction Write inserts the missing records and adds
// only these records to the figures of their days (captcha_figures). Therefore each record counts once,
// in spite of crashes, retries and concurrent replicas. All transactions lock records in the order of
// their IDs, and then figures in the order of their keys, so they cannot deadlock.
//
// A query reads one page from an index, newest first. A query for a few targets reads a page of each
// target.
//
// The entries of the audit are stored in the same way as the records. An entry is a row of
// captcha_audit, whose primary key consists of the API key, the time and the ID. The table
// captcha_audit_figures contains the figures by day and API key. Options.KeepAudit is the retention
// time of entries and their figures.
//
// Expired rows are neither written nor returned, and Store.Run deletes them in small batches. The
// figures of a day expire when the whole day is older than the retention time. Ages are measured with
// the server's clock.
package pgstore
