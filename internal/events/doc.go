// Package events keeps the list of what changed: reloads, pauses, outages, budgets, failovers. The
// list is in Redis and covers all replicas.
//
// The places that change something call Log.Note. A Watch calls Note when the state of a provider,
// a budget, a target or a store changes; cmd/poold lists these states. Package httpapi reads the
// list for GET /events. Package events does not decide when something is out of order.
//
// # Keys
//
// The prefix of these keys is "captcha". Both are in one slot of a cluster.
//
//	captcha:events:{events}        zset    `id JSON` of an event -> its id
//	captcha:event:{events}:TOPIC   string  `Unix ms|state`: the last state of a topic
//
// # Invariants
//
//   - Note never blocks and never fails. While Redis is away, a queue of 1,000 events waits in
//     memory; further events are dropped and counted.
//   - An event has the time of its change on Redis' clock, even if Redis stored the event later.
//   - Two events have different ids.
//   - The list has at most the newest 1,000 events of the last 30 days.
//   - Several replicas may note the same change. An event with a topic is stored only if its state
//     differs from the last state of the topic. So the list has one event for each change, although
//     each replica notes it a moment earlier or later. An outage of Redis is noted after its end; its
//     begin is stored only if it is later than the end of the outage before.
package events
