package events

import (
	"time"
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
	BalanceLow     Kind = "balance_low"
	BalanceOK      Kind = "balance_ok"  // the balance is no longer low
	BudgetNear     Kind = "budget_near" // at least 80 % of a budget are used
	BudgetUsedUp   Kind = "budget_used_up"
	BudgetOK       Kind = "budget_ok"      // less than 75 % of a budget are used again
	TargetRefused  Kind = "target_refused" // a service rejects the parameters of a target
	TargetFailing  Kind = "target_failing" // its orders fail, so that few are placed
	TargetOK       Kind = "target_ok"      // and takes its orders again
	RedisDown      Kind = "redis_down"     // only for the webhook: the list is in Redis
	RedisUp        Kind = "redis_up"       // Redis serves again after an outage
	RedisLost      Kind = "redis_lost"     // Redis lost its data
	ReplicaStarted Kind = "replica_started"
	ReplicaStopped Kind = "replica_stopped"
	ReplicaGone    Kind = "replica_gone" // the beats of a replica ended without an orderly stop
	ReplicaBack    Kind = "replica_back" // and another one started
)

// Event is one change. The Text may quote a service or an operator, so a program that shows an event must escape it.
type Event struct {
	ID      string    `json:"id"`      // decimal digits; later events have higher ids
	At      time.Time `json:"at"`      // time of the change; Note replaces the zero time by the present time
	Kind    Kind      `json:"kind"`    // programs must expect further kinds
	Actor   string    `json:"actor"`   // "key NAME", "no key", "SIGHUP", "the file" or "replica ID"
	Subject string    `json:"subject"` // the target, provider, budget or replica that changed; "" = the file or Redis
	Target  string    `json:"target"`  // the target that the event is about; "" = no single target
	Text    string    `json:"text"`    // one sentence

	// If several replicas can notice the same change, they use the same Topic and State. An event is dropped if the last
	// event of its Topic within an hour has the same State. An event without a Topic is never dropped. The kinds
	// BalanceOK, BudgetOK and TargetOK end another event: if no State of their Topic is known, they only set the State.
	Topic string `json:"-"`
	State string `json:"-"`
	// Unless is a State of the Topic: while the Topic has this State, the event is dropped. "" = no such State.
	Unless string        `json:"-"`
	Lasts  time.Duration `json:"-"` // instead of the hour, if it is longer
}

// longestText limits the text of an event, in bytes.
const longestText = 500

// ReplicaActor returns the Actor of an event that a replica noticed itself.
func ReplicaActor(replica string) string { return "replica " + replica }
