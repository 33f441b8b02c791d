package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"poold/internal/pool"
	"poold/internal/provider"
	"poold/internal/purchase"
	"poold/internal/redisdb"
	"poold/internal/refill"
	"poold/internal/refill/policy"
	"poold/internal/targets"
)

// Cause explains the state of a target. The page, /status.json and the responses to callers without
// a token all show the Cause that CauseOf returns.
type Cause struct {
	State string // Target.State in the document
	// Reason is a sentence. If the solving service is the cause, Reason quotes the service. "" = the
	// state is normal.
	Reason string
	Outage bool // the reason is that all providers are down
}

// mostLines limits the lines about targets, and the names in a line.
const mostLines = 5

// BalanceLow is the limit of the alert PooldBalanceLow, in the currency of the file.
const BalanceLow = 5

// DataLost is the end of a notice, and says what the loss of Redis' data means.
const DataLost = ": ready tokens, orders in flight, pauses, what budgets counted (today and this month) and a " +
	"history in Redis are gone; pause again what was paused, lower money_per_day and money_per_month until they end, " +
	"and see whether Redis keeps an append-only file"

// toldFor is how long the status says that Redis lost its data.
const toldFor = 24 * time.Hour

// goneFor is how long the status names a replica that is gone, unless another one starts.
const goneFor = time.Hour

type gone struct {
	replica string
	at      time.Time
}

// GoneText is the end of a notice about a replica that is gone, and says what this means.
const GoneText = " sends no beats: the other replicas do its work; start it again if it should run"

// CauseOf determines the cause from the refill status and the counts of a target. The argument
// outageReason explains why all providers are down; "" = a provider is up. A pause has the highest
// priority. The target's other causes come next, then the outage.
func CauseOf(t *targets.Target, refilling refill.Status, c *pool.Counts, outageReason string) Cause {
	state, reason := refilling.State, refilling.Reason
	switch {
	case state == refill.Refused:
		if !refilling.Until.IsZero() {
			reason += "; the next order is tried at " + refilling.Until.UTC().Format("15:04:05") + " UTC, or at once after " +
				"`poold resume " + t.Name + "`"
		}
		return Cause{State: state, Reason: reason}
	case state == refill.Budget:
		return Cause{State: state, Reason: cmp.Or(reason, "the budget is used up")}
	case state == refill.Paused && t.Halted() == "":
		return Cause{State: state, Reason: reason + "; `poold resume " + t.Name + "` ends the pause"}
	case state == refill.Paused:
		return Cause{State: state, Reason: reason}
	case state == refill.OK && reason == "" && c.Status == "":
		reason = "starting" // no replica has decided yet
	case state == refill.OK && reason == "" && isIdle(t, refilling, c):
		state, reason = StateIdle, "no caller asked for a while, so no token is kept"
	case state == refill.OK && reason == "" && len(c.Brake.Avoid) > 0 && t.ProvidersPolicy != targets.ProvidersOrdered:
		reason = "orders avoid provider " + strings.Join(c.Brake.Avoid, ", ") + " for up to ten minutes: "
		of := func(f pool.Failure) bool { return strings.HasPrefix(f.Reason, "provider "+c.Brake.Avoid[0]+" ") }
		if i := slices.IndexFunc(c.Failures, of); i >= 0 {
			reason += c.Failures[i].Reason
		} else {
			reason += "orders there failed or were refused"
		}
	}
	if outageReason == "" {
		return Cause{State: state, Reason: reason}
	}
	coming := c.Fresh + c.Orders // an order in flight may be at the provider that is down
	if refilling.Want > coming || c.Waiting > coming || c.Fresh == 0 && refilling.Want > 0 {
		state = refill.Starved
	} else if state == refill.OK {
		outageReason = "nothing new is bought: " + outageReason
	}
	return Cause{State: state, Reason: outageReason, Outage: true}
}

// isIdle reports whether a target wants no tokens because it has no requests.
func isIdle(t *targets.Target, refilling refill.Status, c *pool.Counts) bool {
	return refilling.Want == 0 && c.Waiting == 0 &&
		(refilling.Limit == policy.LimitIdle || refilling.Limit == policy.LimitNone && t.Refill == targets.RefillAdaptive)
}

// States lists all states of targets, the most urgent first.
func States() []string {
	return []string{refill.Refused, refill.Starved, refill.Budget, refill.Paused, refill.OK, StateIdle}
}

// ProblemsFirst returns the targets sorted by urgency, the most urgent first. A target with a mark
// comes before the targets without a mark whose state is paused, ok or idle.
func ProblemsFirst(list []Target) []Target {
	rank := func(t Target) int {
		paused, at := 2*slices.Index(States(), refill.Paused), 2*slices.Index(States(), t.State)
		if len(t.Marks) > 0 && at >= paused {
			return paused - 1
		}
		return at
	}
	return slices.SortedStableFunc(slices.Values(list), func(a, b Target) int { return rank(a) - rank(b) })
}

// announce writes the alarms and the notices.
func (d *Document) announce(providers []purchase.ProviderStatus, health redisdb.Health, gone *gone, webhook string,
	at time.Time) {
	d.at = at
	alarm := func(since time.Time, cause, consequence, action string) {
		d.shared.alarms = append(d.shared.alarms, banner(since, at, cause+": "+consequence+"; "+action))
	}
	note := func(text string) { d.shared.notices = append(d.shared.notices, text) }
	switch r := d.Redis; {
	case health.Full:
		alarm(health.Since, r.Reason, "ready tokens are handed out, and nothing is bought", "raise maxmemory, or free memory")
	case !r.OK:
		alarm(health.Since, r.Reason,
			"no token is handed out and nothing is bought, and the figures of the targets are those before",
			"repair Redis, or correct redis in the configuration file")
	}
	if len(providers) == 0 {
		alarm(time.Time{}, "no provider is configured", "nothing is bought", "add a provider to the configuration file")
	}
	_, _, all := outage(providers)
	none := !slices.ContainsFunc(providers,
		func(p purchase.ProviderStatus) bool { return p.State.Kind == provider.StateOK })
	for _, p := range providers {
		switch text := banner(p.State.Since, at, p.State.Notice(p.Name, none)); {
		case p.State.Kind.Usable():
		case all:
			d.shared.alarms = append(d.shared.alarms, text)
		default:
			note(text)
		}
		if b := p.State.Balance; b != nil && *b < BalanceLow && p.State.Kind.Usable() {
			note(fmt.Sprintf("The balance at provider %s is low: %s; top up the account", p.Name,
				d.Currency.With(fmt.Sprintf("%.6g", *b))))
		}
		if p.Silent {
			note("No callbacks arrived for the last tasks of provider " + p.Name +
				": its tasks are polled; check that the service can reach callback_url, and that it is the base address alone")
		}
	}
	simulated := slices.ContainsFunc(d.set.Providers,
		func(p targets.Provider) bool { return p.Protocol == targets.ProtocolSimulated })
	switch {
	case simulated:
		note("The provider is simulated: its tokens are made up and no site accepts them; give a provider of the file a key")
	case d.set.Redis.Embedded():
		note("Redis is embedded: a restart loses all tokens and orders, also those that were paid for; set redis.url")
	}
	d.shared.notices = append(d.shared.notices, health.Notices...)
	started := func(r Replica) bool { return r.StartedAt > stamp(gone.at) }
	if gone != nil && at.Sub(gone.at) < goneFor && !slices.ContainsFunc(d.Replicas, started) {
		note(banner(gone.at, at, "replica "+gone.replica+GoneText))
	}
	if webhook != "" {
		note(webhook)
	}
	if h := d.History; h != nil && !h.OK && d.Redis.OK {
		note(banner(h.since, at, "the history cannot be written ("+h.Reason+
			"): Redis keeps its rows meanwhile, up to a limit; repair the store of the history"))
	}
	if h := d.History; h != nil && h.Dropped > 0 {
		note(fmt.Sprintf("The history is incomplete: rows that the store refused since the start of this replica: %d; "+
			"the log has the causes", h.Dropped))
	}
	if lost := health.Lost; at.Sub(lost) < toldFor {
		d.dataLost = true
		note("Redis lost its data at " + shortTime(lost, at) + DataLost)
	}
	d.announceTargets()
}

// announceTargets adds lines about targets and keys to the alarms and the notices. There is one line for each reason
// why a service or a budget keeps targets from getting tokens, up to a limit, and one for each key whose budget is used
// up.
func (d *Document) announceTargets() {
	d.Alarms, d.Notices = append([]string{}, d.shared.alarms...), append([]string{}, d.shared.notices...) // never null
	var first []*Target                                                                                   // of each reason
	names := map[string][]string{}
	for i := range d.Targets {
		t := &d.Targets[i]
		fails := t.State == refill.Starved && slices.Contains(t.Marks, markFailing) && !t.outage
		if !t.unread && (fails || t.State == refill.Refused || t.State == refill.Budget) {
			if names[t.Reason] == nil {
				first = append(first, t)
			}
			names[t.Reason] = append(names[t.Reason], t.Name)
		}
	}
	d.Failing = ""
	for i, t := range first {
		if i >= mostLines && (d.Failing != "" || t.State != refill.Starved) {
			continue
		}
		since, _ := time.Parse(time.RFC3339, t.Since) // zero if it is unknown
		who := names[t.Reason]
		text := "no new tokens for " + strings.Join(who[:min(len(who), mostLines)], ", ")
		if len(who) > mostLines {
			text += fmt.Sprintf(" and %d more", len(who)-mostLines)
		}
		action := map[string]string{
			refill.Budget:  "raise the budget in the file, or wait",
			refill.Refused: "check its sitekey and pageurl on the site, and correct the file",
			refill.Starved: "see `poold history active` and `poold history orders --status error`",
		}[t.State]
		line := banner(since, d.at, text+": "+t.Reason+"; "+action)
		if t.State == refill.Starved {
			d.Failing = cmp.Or(d.Failing, line)
		}
		if i < mostLines {
			d.Alarms = append(d.Alarms, line)
		}
	}
	for _, u := range d.Budgets {
		if key, is := strings.CutPrefix(u.Scope, pool.ScopeKey); is && u.Used >= u.Limit {
			year, month, day := d.at.UTC().Date()
			opens := time.Date(year, month, day+1, 0, 0, 0, 0, time.UTC)
			if u.Window == "money_month" {
				opens = time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC)
			}
			d.Alarms = append(d.Alarms, "The budget of key "+key+" is used up ("+u.Text(d.Currency)+
				"): the key gets no tokens; "+pool.RoomAgain(opens)+"; raise it in the file, or wait")
		}
	}
	if more := len(first) - mostLines; more > 0 {
		d.Alarms = append(d.Alarms, fmt.Sprintf("No new tokens for other targets, for %d more reasons: see their states",
			more))
	}
}

// banner returns a text about a fault, preceded by the time when the fault began; the zero time means unknown. `at` is
// the time of the document.
func banner(since, at time.Time, text string) string {
	if since.IsZero() {
		return strings.ToUpper(text[:1]) + text[1:]
	}
	return "Since " + shortTime(since, at) + " " + text
}

// shortTime returns the time of day of t in UTC, with the date if `at` is on another day.
func shortTime(t, at time.Time) string {
	t, layout := t.UTC(), "15:04 UTC"
	if t.Format(time.DateOnly) != at.UTC().Format(time.DateOnly) {
		layout = "2006-01-02 " + layout
	}
	return t.Format(layout)
}

// outage reports whether all providers are down. It returns the reason, and when the first of them can be used again;
// zero = unknown.
func outage(providers []purchase.ProviderStatus) (reason string, until time.Time, is bool) {
	if len(providers) == 0 {
		return "no provider is configured", time.Time{}, true
	}
	var reasons []string
	for _, p := range providers {
		if p.State.Kind.Usable() {
			return "", time.Time{}, false
		}
		reasons = append(reasons, p.State.Sentence(p.Name))
		if until.IsZero() || p.State.Until.Before(until) {
			until = p.State.Until
		}
	}
	return strings.Join(reasons, "; "), until, true
}
