// Package compat keeps the tasks of the compatible endpoints, which clients of solving services
// submit, poll and report on.
//
// # Place in the flow
//
// httpapi speaks both protocols and calls Tasks, which uses pool and ondemand. Both protocols use the same three calls of Tasks: Submit, Poll and Report.
//
//	tasks.go    the calls
//	waiting.go  the tasks that wait for a token at this replica
//	records.go  the records of tasks in Redis
//	causes.go   the error codes of both protocols, in one table
//	nearmiss.go submits that differ from a target in a few fields
//
// # A task
//
// Its number is part of the Idempotency-Key of its take. So every poll gets the same token while the
// token lives. All replicas share the task's record (records.go).
//
//   - A target's task takes at its first poll, so that the token does not age before it. If the stock
//     is empty at the submit or at a poll, the task holds a ticket from then on.
//   - A guest's task is bought at the submit.
//
// # Keys
//
//	captcha:compat:{TASK}  hash  caller, identity, type, guest, made, asked, holder, lease, order, failed, told; for 15 min
//
// # Invariants
//
//   - One replica waits for a task, and holds it in the record under a lease. After the lease the
//     next poll at any replica continues with the same Idempotency-Key, ticket and token.
//   - A task counts as one request, however often it is polled. It counts again if it is polled after
//     it was given up, 30 s after its submit or its last poll.
//   - The record has the end of a task before its caller gets it. After its token expires a task is
//     unknown; it never gets a second token.
//   - At most mostWaiting tasks wait here. Each has a goroutine, which ends with Run.
//
// # Crash points
//
// A test build can kill itself (package crash) after the take of a token (taken), and after the write
// of the record, before any answer (noted).
//
// # What it does not do
//
// It knows no HTTP and no keys of callers. Each call brings the terms of its take.
package compat
