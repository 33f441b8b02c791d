// Package compat keeps the tasks of the compatible endpoints: in.php and res.php, createTask and getTaskResult.
// Clients of solving services submit these tasks, poll them and report on their tokens.
//
// # Place in the flow
//
// Package httpapi implements the protocols and calls Tasks. A task is a call of package pool whose name is the
// task's number, and a record there (pool.Task) for 15 min. Any replica answers a poll. No replica holds a task,
// so the death of one ends none.
//
//   - A target's task takes its token at the first poll, so that the token does not age before it. If the stock
//     has no token for it at the submit, it leaves a ticket at once.
//   - A guest's task leaves its ticket at the submit. Each submit and poll registers the guest at the refiller of
//     its replica for 30 s: if the first replica dies before it has placed the order, the next poll heals it.
//     Without polls nothing new is ordered after 30 s. Only the replica of the submit buys a picture, or for a
//     guest with a proxy, because no store has the bytes or the proxy's password.
//   - A ticket is demand for one token. If the token expires unread, the task has failed, and nothing is bought
//     again.
//
// # Invariants
//
//   - A task counts as one request, however often it is polled, and never gets a second token: its end is in the
//     record before a client gets the answer.
//   - A caller has at most pool.MostTasks unfinished tasks, and tasks have at most half of the tickets of an
//     identity.
//   - A repeated submit is another task, and buys again, at every replica: the protocols have no key of
//     idempotency.
//
// # Crash points
//
// A test build can kill itself (package crash) at "taken", after the take of a token, and at "noted", after the
// write to the record and before the response.
//
// # Out of scope
//
// The package contains no HTTP, no keys of callers and no Redis key. Its callers pass the margin and
// the other Terms of a take.
package compat
