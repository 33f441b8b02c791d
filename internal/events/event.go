package events

import (
	"strings"
	"time"
	"unicode"
)

// Kind is the kind of an event.
type Kind string

// The kinds of events.
const (
	ReloadApplied  Kind = "reload_applied"
	ReloadRefused  Kind = "reload_refused"
	TargetPaused   Kind = "target_paused"
	TargetResumed  Kind = "target_resumed"
	TargetFlushed  Kind = "target_flushed"
	ProviderProbed Kind = "provider_probed"
	ProviderDown   Kind = "provider_down"
	ProviderUp     Kind = "provider_up"
	BudgetUsedUp   Kind = "budget_used_up"
	RedisUp        Kind = "redis_up"   // Redis serves again after an outage
	RedisLost      Kind = "redis_lost" // Redis lost its data
	ReplicaStarted Kind = "replica_started"
	ReplicaStopped Kind = "replica_stopped"
	ReplicaGone    Kind = "replica_gone" // the heartbeats of a replica ended without an orderly stop
)

// Event is one change. The texts may quote a service or an operator, so a program that shows an
// event must escape the texts.
type Event struct {
	ID      string    `json:"id"`      // decimal digits; later events have higher ids
	At      time.Time `json:"at"`      // time of the change; Note replaces the zero time by the present time
	Kind    Kind      `json:"kind"`    // programs must expect further kinds
	Subject string    `json:"subject"` // the target, provider, budget or replica that changed; "" = the file or Redis
	Target  string    `json:"target"`  // the target that the event is about; "" = no single target
	Actor   string    `json:"actor"`   // "key NAME", "no key", "SIGHUP", "the file" or "replica ID"
	Text    string    `json:"text"`    // one sentence

	// If several replicas can notice the same change, they use the same Topic and State. An event is
	// dropped if the last event of its Topic within an hour has the same State. "" = never dropped.
	Topic string `json:"-"`
	State string `json:"-"`
}

const (
	// longestName and longestText limit the texts of an event, in characters.
	longestName = 200
	longestText = 500
)

// clean shortens the texts of an event and replaces characters that are not printable.
func clean(e Event) Event {
	e.Subject, e.Target, e.Actor = plain(e.Subject, longestName), plain(e.Target, longestName), plain(e.Actor, longestName)
	e.Text = plain(e.Text, longestText)
	return e
}

// plain returns a text of at most the given number of printable characters in one line.
func plain(text string, most int) string {
	var short strings.Builder
	for _, r := range text {
		if most--; most < 0 {
			short.WriteString("…")
			break
		}
		switch {
		case unicode.IsSpace(r):
			r = ' '
		case !unicode.IsPrint(r):
			r = unicode.ReplacementChar
		}
		short.WriteRune(r)
	}
	return short.String()
}

// ReplicaActor returns the Actor of an event that a replica noticed itself.
func ReplicaActor(replica string) string { return "replica " + replica }
