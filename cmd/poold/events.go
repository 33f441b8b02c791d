package main

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"poold/internal/events"
	"poold/internal/pool"
	"poold/internal/provider"
	"poold/internal/refill"
	"poold/internal/targets"
	"poold/internal/targets/reload"
)

// budgetCalm is how long a budget must have refused no order before an event says that it has room.
// A budget at its limit has room for one order whenever an older one leaves its window.
const budgetCalm = 2 * time.Minute

// bySignal is the actor of a reload on SIGHUP.
const bySignal = "SIGHUP"

// openEvents makes the list of events and the parts that write it. It must be called after all other
// parts were made.
func (d *daemon) openEvents() {
	watch := events.NewWatch(d.events, d.store.DB.Replica, d.conditions)
	d.eventParts = []part{watch.Run, d.watchMasters}
	d.file.OnOutcome(func(o reload.Outcome) { d.events.Note(reloadEvent(o)) })
}

// noteReplica notes that this replica started or stopped.
func (d *daemon) noteReplica(kind events.Kind, text string) {
	id := d.store.DB.Replica
	d.events.Note(events.Event{
		Kind: kind, Subject: id, Actor: events.ReplicaActor(id), Text: fmt.Sprintf(text, id),
		Details: map[string][]string{"version": {version}},
	})
}

// conditions lists the conditions that this replica knows, without asking Redis.
func (d *daemon) conditions() iter.Seq[events.Condition] {
	return func(yield func(events.Condition) bool) {
		health := d.store.DB.Health()
		redis := events.Condition{Normal: events.RedisUp, Reason: health.Reason}
		if health.Reason != "" {
			redis.Bad = events.RedisDown
		}
		list := append(d.providerConditions(), d.budgetConditions()...)
		list = append(list, redis, d.letterCondition())
		if d.history.sender != nil && d.file.Current().History.Backend != targets.HistoryRedis { // an outage of Redis is an event already
			down := d.history.sender.Health().Down
			list = append(list, condition(down != "", events.HistoryDown, events.HistoryUp, "", down))
		}
		for _, c := range list {
			if !yield(c) {
				return
			}
		}
		if !health.Up {
			return // without Redis nobody knows whether orders are refused
		}
		for name, s := range d.manager.Watched() {
			if s.State == refill.Paused {
				continue // a paused target orders nothing
			}
			c := condition(s.State == refill.Refused, events.TargetRefused, events.TargetAccepted, name, s.Reason)
			c.Target = name
			if !yield(c) {
				return
			}
		}
	}
}

// condition returns a condition; the reason counts only if it is bad.
func condition(isBad bool, bad, normal events.Kind, subject, reason string) events.Condition {
	c := events.Condition{Normal: normal, Subject: subject}
	if isBad {
		c.Bad, c.Reason = bad, reason
	}
	return c
}

func (d *daemon) providerConditions() (list []events.Condition) {
	for _, p := range d.buyer.ProviderStates() {
		bad := events.ProviderDown
		if p.State.Code != "" {
			bad = events.AccountFault
		}
		list = append(list, condition(p.State.Kind == provider.StateDown, bad, events.ProviderUp, p.Name, p.State.Reason))
	}
	return list
}

func (d *daemon) budgetConditions() (list []events.Condition) {
	for _, b := range d.buyer.UsedUp() {
		subject := b.Target
		switch b.Of {
		case pool.Overall:
			subject = events.OverallBudget
		case pool.OfGuests:
			subject = events.GuestsBudget
		}
		c := condition(time.Now().Before(b.Until), events.BudgetUsedUp, events.BudgetFree, subject, "")
		c.Target, c.Calm = b.Target, budgetCalm
		list = append(list, c)
	}
	return list
}

func (d *daemon) letterCondition() events.Condition {
	waiting := d.buyer.DeadLetterCount()
	return condition(waiting > 0, events.DeadLetters, events.DeadLettersStored, d.store.DB.Replica, "")
}

// mastersEvery is the interval at which watchMasters compares the masters of Redis.
const mastersEvery = time.Second

// watchMasters notes when another server becomes master in Redis, or a master restarts, until ctx ends.
func (d *daemon) watchMasters(ctx context.Context) error {
	ticker := time.NewTicker(mastersEvery)
	defer ticker.Stop()
	var known []string
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		now := d.store.DB.Masters()
		if len(known) > 0 && len(now) > 0 && !slices.Equal(known, now) {
			d.events.Note(events.Event{
				Kind: events.RedisFailover, Actor: events.ReplicaActor(d.store.DB.Replica),
				Text:  "Another process of Redis is the master: a failover or a restart.",
				Topic: string(events.RedisFailover), State: strings.Join(now, " "),
			})
		}
		if len(now) > 0 {
			known = now
		}
	}
}

// reloadEvent returns the event of a changed configuration file.
func reloadEvent(o reload.Outcome) events.Event {
	e := events.Event{Kind: events.ReloadApplied, Actor: o.By, Topic: "file", State: o.From + " " + o.To}
	switch {
	case o.Err != nil:
		problems, _, _ := strings.Cut(o.Err.Error(), "\n")
		e.Kind, e.State = events.ReloadRefused, "refused "+o.Err.Error()
		e.Text = "The configuration file was refused, and the last valid one stays in use: " + problems
		return e
	case o.From == o.To:
		e.Text = "The configuration file is valid again, with the content that is in use."
		return e
	case len(o.Changes) == 0:
		e.Text = "The configuration file was applied; no target and no section changed."
		if len(o.Restart) > 0 {
			e.Text = "The configuration file was applied."
		}
	default:
		e.Text = "The configuration file was applied: " + describe(o.Changes) + "."
	}
	e.Details = map[string][]string{}
	for _, c := range o.Changes {
		e.Details[c.How] = c.Names
	}
	for _, p := range o.Restart {
		e.Details["needs_restart"] = append(e.Details["needs_restart"], p.String())
	}
	if len(o.Restart) > 0 {
		e.Text += " A restart is needed for the rest."
	}
	return e
}

// describe lists the changes in words.
func describe(changes []reload.Change) string {
	var parts []string
	for _, c := range changes {
		what := map[string]string{"added": "targets added", "changed": "targets changed", "removed": "targets removed"}[c.How]
		parts = append(parts, cmp.Or(what, "sections changed")+" "+strings.Join(c.Names, ", "))
	}
	return strings.Join(parts, "; ")
}
