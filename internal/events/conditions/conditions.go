// Package conditions lists the conditions that package events watches: whether Redis, the history
// and the providers work, whether budgets are used up, and whether providers refuse the orders of
// targets. The package also creates the events that report reloads and failovers.
//
// The package reads the states from the memory of the packages that own them. It does not access
// Redis or another store.
package conditions

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"poold/internal/events"
	"poold/internal/pool"
	"poold/internal/provider"
	"poold/internal/purchase"
	"poold/internal/purchase/usedup"
	"poold/internal/redisdb"
	"poold/internal/refill"
	"poold/internal/targets/reload"
)

// Buyer reports on providers, budgets and dead letters; *purchase.Buyer implements it.
type Buyer interface {
	ProviderStates() []purchase.Status
	UsedUp() []usedup.Budget
	DeadLetterCount() int
}

// Refill reports on the targets that this replica watches; *refill.Manager implements it.
type Refill interface {
	Watched() iter.Seq2[string, refill.Status]
}

// Sources contains the parts of poold whose states the function All lists. The methods of these
// parts must not block.
type Sources struct {
	Log    *events.Log
	DB     *redisdb.DB
	Buyer  Buyer
	Refill Refill
	// History returns the reason why the history's store accepts no writes; "" = it accepts writes.
	// History is nil if there is no such store, or if the store is Redis.
	History func() string
}

// If a budget has refused no order for the duration `budgetCalm`, an event reports that the budget has
// room again. A budget at its limit has room for one order whenever an older order leaves the
// budget's window.
const budgetCalm = 2 * time.Minute

// All lists the conditions that this replica knows.
func (s Sources) All() iter.Seq[events.Condition] {
	return func(yield func(events.Condition) bool) {
		health := s.DB.Health()
		list := append(s.providers(), s.budgets()...)
		list = append(list, condition(health.Reason != "", events.RedisDown, events.RedisUp, "", health.Reason))
		list = append(list, condition(s.Buyer.DeadLetterCount() > 0, events.DeadLetters, events.DeadLettersStored, s.DB.Replica, ""))
		if s.History != nil {
			down := s.History()
			list = append(list, condition(down != "", events.HistoryDown, events.HistoryUp, "", down))
		}
		for _, c := range list {
			if !yield(c) {
				return
			}
		}
		if !health.Up {
			return // without Redis no replica knows whether orders are refused
		}
		for name, status := range s.Refill.Watched() {
			if status.State == refill.Paused {
				continue // a paused target orders nothing
			}
			c := condition(status.State == refill.Refused, events.TargetRefused, events.TargetAccepted, name, status.Reason)
			c.Target = name
			if !yield(c) {
				return
			}
		}
	}
}

// condition creates a Condition. The reason is used only if isBad is true.
func condition(isBad bool, bad, normal events.Kind, subject, reason string) events.Condition {
	c := events.Condition{Normal: normal, Subject: subject}
	if isBad {
		c.Bad, c.Reason = bad, reason
	}
	return c
}

func (s Sources) providers() (list []events.Condition) {
	for _, p := range s.Buyer.ProviderStates() {
		bad := events.ProviderDown
		if p.State.Code != "" {
			bad = events.AccountFault
		}
		list = append(list, condition(p.State.Kind == provider.StateDown, bad, events.ProviderUp, p.Name, p.State.Reason))
	}
	return list
}

func (s Sources) budgets() (list []events.Condition) {
	for _, b := range s.Buyer.UsedUp() {
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

// mastersEvery is the interval at which WatchMasters compares the masters of Redis.
const mastersEvery = time.Second

// WatchMasters adds an event when another server becomes a master of Redis, or when a master
// restarts. WatchMasters runs until ctx ends.
func (s Sources) WatchMasters(ctx context.Context) error {
	ticker := time.NewTicker(mastersEvery)
	defer ticker.Stop()
	var known []string
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		now := s.DB.Masters()
		if len(known) > 0 && len(now) > 0 && !slices.Equal(known, now) {
			s.Log.Note(events.Event{
				Kind: events.RedisFailover, Actor: events.ReplicaActor(s.DB.Replica),
				Text:  "Another process of Redis is the master: a failover or a restart.",
				Topic: string(events.RedisFailover), State: strings.Join(now, " "),
			})
		}
		if len(now) > 0 {
			known = now
		}
	}
}

// ReloadEvent returns the event that reports a reload of the configuration file.
func ReloadEvent(o reload.Outcome) events.Event {
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
