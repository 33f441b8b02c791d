// Package compat keeps the tasks of the compatible endpoints: in.php and res.php, createTask and getTaskResult.
// Clients of solving services submit these tasks, poll them and report on their tokens.
//
// # Place in the flow
//
// Package httpapi implements the protocols and calls Tasks. A task consists of a call of package pool whose name is the
// task's number, and of a record in Redis (pool.ClientTask) that lives for 15 minutes. Any replica answers a poll. No
// task depends on one replica, so no task ends when a replica dies.
//
//   - A target's task takes its token only at the first poll, so that the token stays in the stock until then. If no
//     token is ready for the task at the submit, the task leaves a ticket at once.
//   - A guest's task leaves its ticket at the submit. Each submit and each poll makes the replica that received it
//     place orders for the guest during 30 s. If a replica dies before it has placed the order, the replica of the next
//     poll places it. Without polls nothing new is ordered after 30 s. A picture, and a solve through a proxy, is
//     bought only by the replica of the submit, because Redis has neither the bytes nor the proxy's password.
//   - A ticket is demand for one token. If the token expires before a poll reads it, the task has failed, and nothing
//     is bought again.
//
// # Invariants
//
//   - A task counts as one request, however often it is polled, and never gets a second token: the record has the
//     task's end before a client gets the answer.
//   - A caller has at most pool.MostTasks unfinished tasks, and tasks have at most half of the tickets of an
//     identity.
//   - A repeated submit is another task and buys again, because the protocols have no Idempotency-Key.
//
// # Crash points
//
// A test build can kill itself (package crash) at "taken", after the take of a token, and at "noted", after the
// write to the record and before the response.
//
// # Out of scope
//
// The package contains no HTTP, no keys of callers and no Redis key. Its callers pass the margin and the other Terms of
// each take.
package compat
