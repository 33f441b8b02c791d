// Package compat keeps the tasks of the compatible endpoints. Clients of solving services submit these
// tasks, poll them and report on their tokens.
//
// # Place in the flow
//
// Package httpapi implements both protocols and calls Tasks, which uses the packages pool and ondemand.
// Both protocols use the same three methods of Tasks: Submit, Poll and Report.
//
//	tasks.go    the methods of Tasks
//	waiting.go  tasks that wait for a token at this replica
//	records.go  the records of tasks in Redis
//	causes.go   the error codes of both protocols, in one table
//
// # A task
//
// The number of a task is part of the Idempotency-Key of its take. Every poll therefore gets the
// same token while the token lives. All replicas share the task's record (records.go).
//
//   - A target's task takes a token at the first poll, so that the token does not age before the poll.
//     If the stock is empty at the submission or at a poll, the task holds a ticket from then on.
//   - The token of a guest's task is ordered at the submission.
//
// # Keys
//
//	captcha:compat:{TASK}  hash  caller, identity, type, guest, made, asked, holder, lease, order, failed, told; for 15 min
//
// # Invariants
//
//   - One replica waits for the token of a task and holds the task under a lease in the record.
//     After the lease has expired, the next poll at any replica continues the task with the same
//     Idempotency-Key, ticket and token.
//   - A task counts as one request, however often it is polled. A replica gives a task up 30 s
//     after the task's submission or last poll. A poll after that time counts as another request.
//   - The end of a task is written to the task's record before the caller gets the token or the
//     error. After its token has expired, a task is unknown. A task never gets a second token.
//   - At most mostWaiting tasks wait at one replica. Each waiting task has a goroutine, which ends with
//     Tasks.Run.
//
// # Crash points
//
// A test build can kill itself (package crash) at two points. The point "taken" follows the take of
// a token. The point "noted" follows the write of the record and precedes any response.
//
// # What it does not do
//
// The package contains no HTTP and no keys of callers. Each caller passes the Terms of the take.
package compat
