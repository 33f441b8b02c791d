package events

import (
	"context"
	"fmt"
	"iter"
	"time"

	"poold/internal/panics"
)

const (
	// watchEvery is the shortest interval at which a Watch compares the conditions.
	watchEvery = 500 * time.Millisecond
	// With thousands of conditions the interval is pauseEach times their number, which limits the CPU
	// time. Comparing one condition takes about 0.5 µs.
	pauseEach = 100 * time.Microsecond
	// If a condition that is new to this replica has been normal for the duration `settled`, the Watch
	// searches the list for an earlier start of the condition.
	settled = time.Minute
)

// Condition is the present state of a part that can fail or be used up, such as a provider or a
// budget.
type Condition struct {
	Normal Kind // kind of the event that reports the return to the normal state
	// Bad is the kind of the event that reports the start of the present state; "" = the state is
	// normal.
	Bad     Kind
	Subject string // as in Event
	Target  string // as in Event
	Reason  string // why the state is not normal; "" = unknown
	// Calm is how long the state must be normal before an event reports the end of the condition. Calm
	// is for states that change often.
	Calm time.Duration
}

// topic identifies a condition. All replicas use the same Normal and Subject for the same
// condition.
type topic struct {
	normal  Kind
	subject string
}

func (t topic) String() string { return string(t.normal) + " " + t.subject }

// watched is the state that a Watch keeps for one topic.
type watched struct {
	bad      Kind      // the last state that an event reported; "" = normal
	since    time.Time // when the present state was first seen
	calm     time.Time // start of a normal state that no event has reported yet; zero = none
	compared bool      // whether the list was searched for an earlier start
	round    int       // number of the last round in which the topic had a condition
}

// Watch adds an event to the Log when a condition changes.
type Watch struct {
	log        *Log
	replica    string
	conditions func() iter.Seq[Condition]

	known map[topic]*watched
	round int
}

// NewWatch returns a Watch for a replica. The function conditions returns the conditions that this
// replica knows now. A condition whose state is unknown must be absent. The function must not block.
func NewWatch(log *Log, replica string, conditions func() iter.Seq[Condition]) *Watch {
	return &Watch{log: log, replica: replica, conditions: conditions, known: map[topic]*watched{}}
}

// Run compares the conditions at most twice a second until ctx ends.
func (w *Watch) Run(ctx context.Context) error {
	timer := time.NewTimer(watchEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case at := <-timer.C:
			_ = panics.Contain(w.log.log, "panic while watching for events", func() { w.compare(ctx, at) })
			timer.Reset(max(watchEvery, time.Duration(len(w.known))*pauseEach))
		}
	}
}

// compare adds an event for each condition that changed since the last round.
func (w *Watch) compare(ctx context.Context, at time.Time) {
	w.round++
	var unknown []Condition // conditions that are normal now, but that another replica may have reported as bad
	for c := range w.conditions() {
		of := topic{c.Normal, c.Subject}
		k := w.known[of]
		if k == nil {
			k = &watched{since: at}
			w.known[of] = k
		}
		k.round = w.round
		switch {
		case c.Bad != "" && c.Bad != k.bad:
			w.note(c, at)
			*k = watched{bad: c.Bad, since: at, compared: true, round: w.round}
		case c.Bad != "":
			k.calm = time.Time{}
		case k.bad != "" && k.calm.IsZero():
			k.calm = at
		}
		if c.Bad == "" && k.bad != "" && at.Sub(k.calm) >= c.Calm {
			w.note(c, k.calm)
			*k = watched{since: at, compared: true, round: w.round}
		}
		if c.Bad == "" && !k.compared && at.Sub(k.since) >= settled {
			unknown = append(unknown, c)
		}
	}
	for of, k := range w.known {
		if k.round != w.round {
			delete(w.known, of)
		}
	}
	w.endEarlier(ctx, at, unknown)
}

// endEarlier adds an event for the end of each condition that began before this replica watched the
// condition.
func (w *Watch) endEarlier(ctx context.Context, at time.Time, normal []Condition) {
	if len(normal) == 0 {
		return
	}
	list, err := w.log.Recent(ctx, Newest, "")
	if err != nil {
		return // the next round tries again
	}
	state := map[string]string{}
	for _, e := range list { // the newest first
		if _, newer := state[e.Topic]; !newer {
			state[e.Topic] = e.State
		}
	}
	for _, c := range normal {
		of := topic{c.Normal, c.Subject}
		w.known[of].compared = true
		if state[of.String()] != "" {
			w.note(c, at)
		}
	}
}

// note adds the event that reports the present state of a condition.
func (w *Watch) note(c Condition, at time.Time) {
	kind := c.Bad
	if kind == "" {
		kind = c.Normal
	}
	w.log.Note(Event{
		At: at, Kind: kind, Subject: c.Subject, Target: c.Target, Actor: ReplicaActor(w.replica), Text: sentence(kind, c.Subject, c.Reason),
		Topic: topic{c.Normal, c.Subject}.String(), State: string(c.Bad),
	})
}

// ReplicaActor returns the Actor of an event that a replica noticed itself.
func ReplicaActor(replica string) string { return "replica " + replica }

// The subjects of the two budgets that belong to no target.
const (
	OverallBudget = "overall"
	GuestsBudget  = "/solve"
)

// sentences contains the text of each kind of event about a condition. %s stands for the subject.
var sentences = map[Kind]string{
	TargetRefused:     "Providers refuse the orders of target %s",
	TargetAccepted:    "Providers no longer refuse the orders of target %s",
	ProviderDown:      "Provider %s is down",
	AccountFault:      "Provider %s reports a fault of the account",
	ProviderUp:        "Provider %s works again",
	BudgetUsedUp:      "%s is used up",
	BudgetFree:        "%s has room again",
	RedisDown:         "Redis does not serve%.0s",
	RedisUp:           "Redis serves again%.0s",
	HistoryDown:       "The history cannot be written%.0s",
	HistoryUp:         "The history is written again%.0s",
	DeadLetters:       "Callbacks wait on the disk of replica %s, because Redis did not store them",
	DeadLettersStored: "No callback waits on the disk of replica %s any more",
}

// sentence returns the text of an event about a condition.
func sentence(kind Kind, subject, reason string) string {
	switch {
	case kind != BudgetUsedUp && kind != BudgetFree:
	case subject == OverallBudget:
		subject = "The overall budget"
	case subject == GuestsBudget:
		subject = "The budget of solves without a target"
	default:
		subject = "The budget of target " + subject
	}
	text := fmt.Sprintf(sentences[kind], subject)
	if reason != "" {
		text += ": " + reason
	}
	return text + "."
}
