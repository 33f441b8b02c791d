// Package events keeps a list of changes that an operator may ask about later: reloads, pauses,
// outages, used-up budgets, and starts and stops of replicas. The list is stored in Redis and
// contains the events of all replicas.
//
// The code that makes or notices a change calls Log.Note. Package httpapi reads the list for GET
// /events.
//
// # Keys
//
// The prefix of these keys is "captcha". In a cluster, both keys are in one slot.
//
//	captcha:events:{events}        list    `id JSON` of an event, the newest first
//	captcha:event:{events}:TOPIC   string  the last state of a topic, for an hour
//
// # Invariants
//
//   - Note never blocks and never fails. While Redis is unavailable, up to 1,000 events wait in
//     memory; further events are dropped.
//   - Later events in the list have higher ids.
//   - The list has at most the newest 1,000 events of the last 30 days, and of one kind by one actor the newest 50.
//   - If several replicas notice the same change, the list has one event.
package events
