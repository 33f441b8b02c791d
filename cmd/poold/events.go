package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"poold/internal/backoff"
	"poold/internal/events"
	"poold/internal/pool"
	"poold/internal/provider"
	"poold/internal/replicas"
	"poold/internal/status"
	"poold/internal/targets/reload"
)

// bySignal is the actor of a reload on SIGHUP.
const bySignal = "SIGHUP"

// watchEvery is the interval at which the daemon checks the budgets for events.
const watchEvery = 15 * time.Second

// openEvents opens the list of events. It must be called before the parts that add events.
func (d *daemon) openEvents() {
	d.events = events.NewLog(d.redis, d.log)
	d.file.Report = func(o reload.Attempt) {
		e := reloadEvent(o)
		if o.Err != nil {
			e.Text = "Replica " + d.replica.String() + ": " + e.Text
		}
		d.events.Note(e)
	}
	d.redis.Lost = func(data string) {
		d.ids.Forget()
		d.noteChange("redis data", events.Event{Kind: events.RedisLost, Text: "Redis lost its data" + status.DataLost + ".",
			State: data})
	}
	d.redis.Back = func(away time.Duration, reason string) {
		since := time.Now().Add(-away).UTC().Format(time.TimeOnly)
		text := "Redis serves again, after " + away.Round(time.Second).String() + ". The fault since " + since + " UTC: " +
			reason + "."
		state := time.Now().UTC().Truncate(20 * time.Second).Format(time.TimeOnly) // all replicas notice it within seconds
		wait := time.Duration(0)
		if time.Since(d.replica.Started) < away+2*time.Second {
			wait = 5 * time.Second // this replica started meanwhile: another one may know the beginning
		}
		time.AfterFunc(wait, func() { d.noteChange("redis", events.Event{Kind: events.RedisUp, Text: text, State: state}) })
	}
}

// noteChange adds an event about a change that several replicas notice. It returns false if this replica has noted the
// change before.
func (d *daemon) noteChange(topic string, e events.Event) bool {
	e.Actor, e.Topic = events.ReplicaActor(d.replica.ID), topic+" "+e.Subject
	return d.events.Note(e)
}

// noteProvider adds the event that a provider went down or up.
func (d *daemon) noteProvider(name string, down bool, state provider.Condition, none bool) {
	e := events.Event{Kind: events.ProviderUp, Subject: name, Text: "Provider " + name + " works again.", State: "up"}
	if !down && !state.Since.IsZero() {
		e.Text = "Provider " + name + " works again, after " + time.Since(state.Since).Round(time.Second).String() + "."
	}
	if down {
		e.Kind, e.State = events.ProviderDown, "down "+state.Code
		e.Text = "P" + state.Notice(name, none)[1:] + "."
	}
	d.noteChange("provider", e)
}

// noteUsedUp adds the event that a budget refused an order or a take. It adds the event only once until the budget has
// room again or another limit.
func (d *daemon) noteUsedUp(scope, target, spent string, opens time.Time) {
	limit, window := limitOf(spent)
	e := events.Event{Kind: events.BudgetUsedUp, Subject: scope, State: "used up: " + limit, Lasts: events.Kept}
	consequence := ": nothing is bought on it; "
	isKey := strings.HasPrefix(scope, pool.ScopeKey)
	switch {
	case isKey:
		consequence = ": the key gets no tokens; "
	case scope != pool.ScopeOverall && scope != pool.ScopeSolve && !strings.HasPrefix(scope, pool.ScopeOwner):
		e.Subject, e.Target = target, target
	}
	text := pool.UsedUp(pool.BudgetName(scope, "target "+target), spent)
	e.Text = "T" + text[1:] + consequence + pool.RoomAgain(opens) + ", or at once if you raise it in the file."
	if d.noteChange("budget "+window, e) && isKey {
		d.log.Warn("the budget of a key is used up", "key", strings.TrimPrefix(scope, pool.ScopeKey), "reason", e.Text)
	}
}

// noteBudgets adds an event for each budget of which 80 to 100 % are used. It adds another event when such a budget has
// room again: less than 75 % are used, or the file no longer has the budget. The argument before has the earlier uses.
func (d *daemon) noteBudgets(doc *status.Document, before []status.BudgetUse) (uses []status.BudgetUse) {
	uses = doc.BudgetUses()
	for _, was := range before {
		isIt := func(u status.BudgetUse) bool { return u.Scope == was.Scope && u.Window == was.Window }
		if !slices.ContainsFunc(uses, isIt) {
			d.noteBudget(was, was.Text(doc.Currency), events.BudgetOK, "is no longer limited.")
		}
	}
	for _, u := range uses {
		use := u.Text(doc.Currency)
		switch share := u.Used / u.Limit; {
		case share < 0.75:
			d.noteBudget(u, use, events.BudgetOK, "has room: "+use+" are used.")
		case share >= 0.8 && share < 1:
			d.noteBudget(u, use, events.BudgetNear, "is nearly used up: "+use+
				" are used; raise it in the file if that is wanted.")
		}
	}
	return uses
}

func (d *daemon) noteBudget(u status.BudgetUse, use string, kind events.Kind, is string) {
	limit, window := limitOf(use)
	e := events.Event{Kind: kind, Subject: u.Scope, State: string(kind), Lasts: events.Kept}
	if target, found := strings.CutPrefix(u.Scope, status.OfTarget); found {
		e.Subject, e.Target = target, target
	}
	if kind == events.BudgetNear {
		e.Unless = "used up: " + limit
	}
	e.Text = "T" + pool.BudgetName(u.Scope, strings.Replace(u.Scope, ":", " ", 1))[1:] + " " + is
	d.noteChange("budget "+window, e)
}

// limitOf splits a text about the use of a budget, such as "2 of 5 solves in the last 24 hours", and returns the limit
// and the window.
func limitOf(use string) (limit, window string) {
	_, rest, _ := strings.Cut(use, " of ")
	limit, window, _ = strings.Cut(rest, " ")
	return limit, window
}

// watch reads the status every watchEvery. It adds events about budgets, and keeps the last figures recent in case
// Redis goes away.
func (d *daemon) watch(ctx context.Context) error {
	var uses []status.BudgetUse
	for backoff.Sleep(ctx, watchEvery) == nil {
		if doc := d.status.Build(ctx); doc.Redis.OK {
			uses = d.noteBudgets(doc, uses)
			d.noteFailing(doc)
		}
	}
	return nil
}

// noteBalance adds an event when the balance at a provider becomes low.
func (d *daemon) noteBalance(provider string, balance float64) {
	amount := d.file.Current().Currency.With(fmt.Sprintf("%.6g", balance))
	e := events.Event{Kind: events.BalanceOK, Subject: provider, Text: "The balance at provider " + provider + " is " +
		amount + " again.", State: "enough", Lasts: events.Kept}
	if balance < status.BalanceLow {
		e.Kind, e.State = events.BalanceLow, "low"
		e.Text = "The balance at provider " + provider + " is low: " + amount + "; top up the account."
	}
	d.noteChange("balance", e)
}

// noteRefused adds the event that a service rejects the parameters of a target, or accepts the target's orders again.
func (d *daemon) noteRefused(target, reason string, is bool) {
	text := "The service refuses target " + target + ": " + reason +
		": nothing is bought for it; check its sitekey and pageurl on the site, " +
		"correct the file, or `poold resume " + target + "` if the service erred."
	e := events.Event{Kind: events.TargetRefused, Subject: target, Target: target, Text: text, State: "refused",
		Lasts: events.Kept}
	if !is {
		e.Kind, e.State, e.Text = events.TargetOK, "accepted",
			cmp.Or(reason, "Orders of target "+target+" are solved again.")
	}
	d.noteChange("refused", e)
}

// noteFailing adds one event when orders of some targets begin to fail, and one when no target fails any more. There is
// no event for each target, because a service that solves nothing affects all targets at once.
func (d *daemon) noteFailing(doc *status.Document) {
	e := events.Event{Kind: events.TargetOK, State: "ok", Lasts: events.Kept, Text: "No target's orders fail any more."}
	if doc.Failing != "" {
		e.Kind, e.State, e.Text = events.TargetFailing, "failing", doc.Failing+"."
	}
	d.noteChange("failing", e)
}

// noteReplica adds an event about a replica. Of the events ReplicaStopped and ReplicaGone only the first is added:
// they have the same topic and the same state.
func (d *daemon) noteReplica(kind events.Kind, r replicas.Replica, state, did string) {
	d.noteChange("replica", events.Event{Kind: kind, Subject: r.ID, Text: "Replica " + r.String() + " " + did + ".",
		State: state})
}

// noteGone adds the event that another replica sends no beats although it did not stop in an orderly way.
func (d *daemon) noteGone(ctx context.Context, r replicas.Replica) {
	list, _ := d.events.Recent(ctx) // without an answer it counts as gone
	stopped := func(e events.Event) bool { return e.Kind == events.ReplicaStopped && e.Subject == r.ID }
	if slices.ContainsFunc(list, stopped) {
		return
	}
	d.log.Warn("a replica sends no beats; the others do its work", "replica", r.String())
	for _, other := range replicas.List(d.pool.Live()) {
		if other.Address == r.Address {
			d.noteReplica(events.ReplicaBack, r, "gone", "ended without a stop, and was started again as "+other.ID)
			return
		}
	}
	d.status.Gone(r.String())
	d.noteReplica(events.ReplicaGone, r, "gone", status.GoneText[1:])
}

// noteStart adds the event that this replica has started. If another replica was gone before, the event says so.
func (d *daemon) noteStart(ctx context.Context) {
	kind, did := events.ReplicaStarted, "started with version "+version
	list, _ := d.events.Recent(ctx) // without an answer none was gone
	last := slices.IndexFunc(list, func(e events.Event) bool {
		return slices.Contains([]events.Kind{events.ReplicaStarted, events.ReplicaBack, events.ReplicaGone}, e.Kind)
	})
	if last >= 0 && list[last].Kind == events.ReplicaGone {
		kind, did = events.ReplicaBack, did+", after replica "+list[last].Subject+" was gone"
	}
	d.noteReplica(kind, d.replica, "started", did)
}

// reloadEvent returns the event that reports a reload of the configuration file.
func reloadEvent(o reload.Attempt) events.Event {
	e := events.Event{Kind: events.ReloadApplied, Actor: o.By, Topic: "file", State: o.From + " " + o.To}
	if o.Err != nil {
		problems, more, _ := strings.Cut(o.Err.Error(), "\n")
		if more != "" {
			problems += fmt.Sprintf(" (and %d more)", strings.Count(more, "\n")+1)
		}
		e.Kind, e.State = events.ReloadRefused, "refused "+o.Err.Error()
		e.Text = "The configuration file was refused, and the last valid one stays in use: " + problems +
			"; correct and save it, and see `poold check`."
		return e
	}
	e.Text = "The configuration file was applied: " + cmp.Or(o.Changes, "nothing changed") + "."
	if o.Mended {
		e.Text = "The configuration file is valid again, and applied: " + cmp.Or(o.Changes, "it is as before its fault") + "."
	}
	if len(o.Restart) > 0 {
		e.Text += " A restart is needed: " + strings.ReplaceAll(o.Restart.Error(), "\n", "; ")
	}
	return e
}
