// Package events keeps a list of changes that an operator may ask about later: reloads, pauses,
// outages, used-up budgets and failovers. The list is stored in Redis and contains the events of
// all replicas.
//
// The code that makes a change calls Log.Note. A Watch calls Note when the state of a provider, a
// budget, a target or a store changes; package conditions lists these states. Package httpapi reads
// the list for GET /events. Package events does not decide which states are normal.
//
// # Keys
//
// The prefix of these keys is "captcha". In a cluster, both keys are in one slot.
//
//	captcha:events:{events}        zset    `id JSON` of an event -> its id
//	captcha:event:{events}:TOPIC   string  `Unix ms|state`: the last state of a topic
//
// # Invariants
//
//   - Note never blocks and never fails. While Redis is unavailable, up to 1,000 events wait in
//     memory; further events are dropped and counted.
//   - An event has the time of its change on Redis' clock, even if Redis stored the event later.
//   - All events have different ids.
//   - The list has at most the newest 1,000 events of the last 30 days.
//   - Several replicas may report the same change, at slightly different times. An event with a
//     topic is stored only if its state differs from the last state of the topic. So the list has
//     one event for each change. Replicas can store the start of a Redis outage only after the
//     outage. Such an event is stored only if it is newer than the last event of its topic.
package events
