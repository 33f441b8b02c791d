package main

import (
	"fmt"
	"strings"
	"time"

	"poold/internal/events"
	"poold/internal/pool"
	"poold/internal/replicas"
	"poold/internal/targets/reload"
)

// bySignal is the actor of a reload on SIGHUP.
const bySignal = "SIGHUP"

// balanceLow is the limit of the alert PooldBalanceLow.
const balanceLow = 5

// openEvents opens the list of events. It must be called before the parts that add events.
func (d *daemon) openEvents() {
	d.events = events.NewLog(d.redis, d.log)
	d.file.Report = func(o reload.Outcome) { d.events.Note(reloadEvent(o)) }
	d.redis.Lost = func(data string) {
		d.ids.Forget()
		select {
		case d.lost <- struct{}{}:
		default:
		}
		text := "Redis lost its data: ready tokens, orders in flight and today's budgets are gone."
		d.noteChange("redis data", events.Event{Kind: events.RedisLost, Text: text, State: data})
	}
	d.redis.Back = func(away time.Duration) {
		since := time.Now().Add(-away).UTC().Format(time.TimeOnly)
		text := "Redis serves again, after " + away.Round(time.Second).String() + ": it was away since " + since + " UTC."
		d.noteChange("redis", events.Event{Kind: events.RedisUp, Text: text, State: time.Now().UTC().Format("15:04")})
	}
}

// noteChange adds an event about a change that several replicas notice.
func (d *daemon) noteChange(topic string, e events.Event) {
	e.Actor, e.Topic = events.ReplicaActor(d.replica.ID), topic+" "+e.Subject
	d.events.Note(e)
}

// noteProvider adds an event: a provider went down or up.
func (d *daemon) noteProvider(name string, down bool, reason string) {
	e := events.Event{Kind: events.ProviderUp, Subject: name, Text: "Provider " + name + " works again.", State: "up"}
	if down {
		e.Kind, e.Text, e.State = events.ProviderDown, "Provider "+name+" is down: "+reason+".", "down"
	}
	d.noteChange("provider", e)
}

// noteBudget adds an event: a budget refused an order or a take, which is added at most once an hour; or, with the period
// of a budget, at least 80 % of it are used, which is added at most once in the period.
func (d *daemon) noteBudget(scope, target string, period time.Duration) {
	e := events.Event{Kind: events.BudgetUsedUp, Subject: target, Target: target, Lasts: period}
	switch {
	case scope == pool.ScopeOverall:
		e.Subject, e.Target = "overall", ""
	case scope == pool.ScopeSolve:
		e.Subject, e.Target = "/solve", ""
	case strings.HasPrefix(scope, pool.ScopeOwner), strings.HasPrefix(scope, pool.ScopeKey):
		e.Subject, e.Target = scope, ""
	}
	whose := "T" + strings.TrimPrefix(pool.BudgetName(scope, "target "+target), "t")
	e.Text = whose + " is used up."
	if period > 0 {
		e.Kind, e.Text = events.BudgetNear, fmt.Sprintf("%s is nearly used up: at least 80 %% of the solves of %.0f h.", whose, period.Hours())
	}
	e.State = string(e.Kind)
	d.noteChange("budget "+period.String(), e)
}

// noteBalance adds an event: the balance at a provider is low, and was not before.
func (d *daemon) noteBalance(provider string, balance float64) {
	e := events.Event{Subject: provider, State: "enough", Lasts: events.Kept} // only the state changes
	if balance < balanceLow {
		amount := d.file.Current().Currency.With(fmt.Sprintf("%.6g", balance))
		e.Kind, e.State, e.Text = events.BalanceLow, "low", "The balance at provider "+provider+" is low: "+amount+"."
	}
	d.noteChange("balance", e)
}

// noteRefused adds an event: a service rejects the parameters of a target, since a time.
func (d *daemon) noteRefused(target, reason string, since time.Time) {
	text := "The service refuses target " + target + ": " + reason + "."
	e := events.Event{Kind: events.TargetRefused, Subject: target, Target: target, Text: text, State: since.UTC().String(), Lasts: events.Kept}
	d.noteChange("refused", e)
}

// noteReplica adds an event about a replica. The events ReplicaStopped and ReplicaGone have the same
// topic and the same state. So after one of them, the other is not added.
func (d *daemon) noteReplica(kind events.Kind, r replicas.Replica, state, did string) {
	d.noteChange("replica", events.Event{Kind: kind, Subject: r.ID, Text: "Replica " + r.String() + " " + did + ".", State: state})
}

// noteGone adds an event: another replica sends no beats.
func (d *daemon) noteGone(r replicas.Replica) {
	d.log.Warn("a replica sends no beats; the others do its work", "replica", r.String())
	d.noteReplica(events.ReplicaGone, r, "gone", "sends no beats; the other replicas do its work")
}

// reloadEvent returns the event that reports a reload of the configuration file.
func reloadEvent(o reload.Outcome) events.Event {
	e := events.Event{Kind: events.ReloadApplied, Actor: o.By, Topic: "file", State: o.From + " " + o.To}
	if o.Err != nil {
		problems, _, _ := strings.Cut(o.Err.Error(), "\n")
		e.Kind, e.State = events.ReloadRefused, "refused "+o.Err.Error()
		e.Text = "The configuration file was refused, and the last valid one stays in use: " + problems
		return e
	}
	var parts []string
	for _, c := range o.Changes {
		what := "targets " + c.How
		if c.How == "keys" {
			what = "keys changed"
		}
		parts = append(parts, what+" "+strings.Join(c.Names, ", "))
	}
	e.Text = "The configuration file was applied: " + strings.Join(parts, "; ") + "."
	if len(parts) == 0 {
		e.Text = "The configuration file was applied; no target and no key changed."
	}
	if len(o.Restart) > 0 {
		e.Text += " A restart is needed: " + strings.ReplaceAll(o.Restart.Error(), "\n", "; ")
	}
	return e
}
