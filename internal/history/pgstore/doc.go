// Package pgstore keeps the history in PostgreSQL, for a time that the operator sets.
//
// A record is a row of captcha_solves. In one transaction Write inserts the missing records and adds only these to
// the figures of their days (captcha_figures). So each record counts once, in spite of crashes, repeats and other
// replicas. All transactions lock records by ID first and then figures by key, which excludes deadlocks.
//
// A query reads one page from an index, newest first. A query for few targets reads a page of each.
//
// The audit works in the same way: an entry is a row of captcha_audit, by key, time and ID, and captcha_audit_figures
// has the figures by day and key. Options.KeepAudit is its time to keep.
//
// Expired rows are neither written nor returned, and Run deletes them in small batches. A day's figures expire with
// the last moment of the day. The server's clock decides.
package pgstore
