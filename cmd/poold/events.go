package main

import (
	"poold/internal/events"
	"poold/internal/events/conditions"
	"poold/internal/targets"
	"poold/internal/targets/reload"
)

// bySignal is the actor of a reload on SIGHUP.
const bySignal = "SIGHUP"

// openEvents opens the list of events and creates the parts that add events. It must be called
// after the other parts are created.
func (d *daemon) openEvents(set *targets.Set) {
	d.events = events.NewLog(d.store.DB, d.log)
	from := conditions.Sources{Log: d.events, DB: d.store.DB, Buyer: d.buyer, Refill: d.manager}
	if sender := d.history.sender; sender != nil && set.History.Backend != targets.HistoryRedis {
		from.History = func() string { return sender.Health().Down }
	}
	d.eventParts = []part{events.NewWatch(d.events, d.store.DB.Replica, from.All).Run, from.WatchMasters}
	d.file.OnOutcome(func(o reload.Outcome) { d.events.Note(conditions.ReloadEvent(o)) })
}

// noteReplica adds an event: this replica has started, or it stops.
func (d *daemon) noteReplica(kind events.Kind, did string) {
	e := replicaEvent(kind, d.store.DB.Replica, d.store.DB.Replica, did)
	e.Details = map[string][]string{"version": {version}}
	d.events.Note(e)
}

// noteGone adds an event: another replica sends no heartbeats.
func (d *daemon) noteGone(id string) {
	d.events.Note(replicaEvent(events.ReplicaGone, id, d.store.DB.Replica, "sends no heartbeats; the other replicas do its work"))
}

// replicaEvent returns an event about a replica. The events ReplicaStopped and ReplicaGone have the
// same topic and the same state. So after one of them, the other is not added.
func replicaEvent(kind events.Kind, id, actor, did string) events.Event {
	e := events.Event{Kind: kind, Subject: id, Actor: events.ReplicaActor(actor), Text: "Replica " + id + " " + did + ".", Topic: "replica " + id}
	if e.State = "gone"; kind == events.ReplicaStarted {
		e.State = "started"
	}
	return e
}
