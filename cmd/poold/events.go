package main

import (
	"poold/internal/events"
	"poold/internal/events/conditions"
	"poold/internal/targets"
	"poold/internal/targets/reload"
)

// bySignal is the actor of a reload on SIGHUP.
const bySignal = "SIGHUP"

// openEvents makes the list of events and the parts that write it. It must be called after the other
// parts were made.
func (d *daemon) openEvents(set *targets.Set) {
	d.events = events.NewLog(d.store.DB, d.log)
	from := conditions.Sources{Log: d.events, DB: d.store.DB, Buyer: d.buyer, Refill: d.manager}
	if sender := d.history.sender; sender != nil && set.History.Backend != targets.HistoryRedis {
		from.History = func() string { return sender.Health().Down }
	}
	d.eventParts = []part{events.NewWatch(d.events, d.store.DB.Replica, from.All).Run, from.WatchMasters}
	d.file.OnOutcome(func(o reload.Outcome) { d.events.Note(conditions.ReloadEvent(o)) })
}

// noteReplica notes that this replica started or stops.
func (d *daemon) noteReplica(kind events.Kind, did string) {
	id := d.store.DB.Replica
	d.events.Note(events.Event{
		Kind: kind, Subject: id, Actor: events.ReplicaActor(id), Text: "Replica " + id + " " + did + ".",
		Details: map[string][]string{"version": {version}},
	})
}
