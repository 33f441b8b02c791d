// Package compat is the tasks of the compatible endpoints: what lies between a client of a
// solving service, which submits, polls and reports, and a stock that is taken from.
//
// It stands between httpapi, which reads the calls and answers them in the words of either
// protocol, and pool and ondemand, which hand out. Both protocols come to the same four
// calls of Tasks: Submit, Poll, Report and, for what no task is needed for, nothing.
//
//	tasks.go    the calls
//	waiting.go  the tasks that wait for a token at this replica
//	records.go  the records of tasks in Redis
//	causes.go   what goes wrong, and the words of both protocols for it: one table
//	nearmiss.go submits that nearly had a target
//
// # A task
//
// Its number is part of the Idempotency-Key of its take, so that the receipt of the take
// gives the same token to the same caller as long as it lives. Its record (records.go) is
// the same at all replicas and after a restart.
//
//	a target's   takes at its first poll, not before, so that the token does not age while
//	             the client sleeps. Where the stock is empty at the submit or at a poll, it
//	             holds a ticket from then on.
//	a guest's    is bought at the submit.
//
// # Keys
//
//	captcha:compat:{TASK}  hash  caller, identity, type, guest, made, asked, holder, lease, order, failed, told; for 15 min
//
// # Invariants
//
//   - One replica waits for a task, and holds it in its record under a lease; when that
//     ends, the next poll at any replica goes on under the same Idempotency-Key, so with
//     the same ticket and the same token.
//   - A poll takes only where the task was not served yet. So a task is one request in the
//     figures, however often it is polled, unless it was given up in between: 30 s after
//     the last poll, or the submit.
//   - What a task got is written down before its caller hears of it. Once its token is dead
//     the task is unknown: it never gets a second one.
//   - There are mostWaiting tasks at most that wait here; each is one goroutine, which ends
//     with Run.
//
// # Points to crash at
//
// A test build can be made to kill itself (crash) when a task's token is taken and not yet
// written down (taken), and when it is written down and nobody was told (noted).
//
// # What it does not do
//
// It knows no HTTP and no key, and does not decide who may have what: the terms of a take
// come with each call.
package compat
