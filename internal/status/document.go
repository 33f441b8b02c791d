package status

import (
	"slices"
	"strings"

	"poold/internal/pool"
)

// Document is /status.json. Fields may be added, never taken away or changed.
type Document struct {
	Version   string   `json:"version"`
	Ready     bool     `json:"ready"`      // as /readyz says
	AsOf      string   `json:"as_of"`      // when the stock was asked; RFC 3339, UTC
	StartedAt string   `json:"started_at"` // RFC 3339, UTC
	Alarms    []string `json:"alarms"`     // what keeps it from its work now, and why; the first to look at
	Notices   []string `json:"notices"`    // what to know about this way of running it, e.g. a simulated provider
	Config    Config   `json:"config"`
	Redis     Redis    `json:"redis"`
	// Budget is the one over all targets, in the last 24 h; null = there is none.
	Budget *Usage `json:"budget"`
	// Solve is null where the file has no section `solve` and there is no guest.
	Solve *Solve `json:"solve"`
	// Dedup is null for a key that is limited to some targets.
	Dedup *Dedup `json:"dedup"`
	// History is null where none is kept, and for a key that is limited to some targets.
	History *History `json:"history"`
	// Audit is null where none is kept, and for a key that is limited to some targets.
	Audit       *Audit     `json:"audit"`
	DeadLetters int        `json:"dead_letters"` // callbacks at this replica that could not be stored yet
	Providers   []Provider `json:"providers"`    // in the order in which they are tried
	Targets     []Target   `json:"targets"`      // sorted by name
}

// Usage is how much of a budget is used, in solves.
type Usage struct {
	Used  int `json:"used"`
	Limit int `json:"limit"`
}

// Config is about the file.
type Config struct {
	LoadedAt string   `json:"loaded_at"` // of the Set in use; RFC 3339, UTC
	OK       bool     `json:"ok"`        // the last attempt to load it was good
	Problems []string `json:"problems"`  // of the last attempt: "pools.yaml:LINE: message"
	Warnings []string `json:"warnings"`  // what is unusual in the Set in use
	// Lasting is what only a restart changes, by the path of its key, without secrets; null
	// for a key that is limited to some targets.
	Lasting map[string]string `json:"lasting"`
}

// Redis is about the store.
type Redis struct {
	Mode string `json:"mode"` // embedded | single | sentinel | cluster
	OK   bool   `json:"ok"`   // false: it cannot be used; the figures of the targets may be the last known ones
	// Reason says why it is not ok, or why it is so for a part of the targets alone;
	// "" = all is well.
	Reason string `json:"reason"`
}

// History is about the history, as this replica writes it since its start.
type History struct {
	OK      bool   `json:"ok"`
	Reason  string `json:"reason"`  // why it cannot be written now; "" when ok
	Sent    int64  `json:"sent"`    // ends of orders that it took
	Dropped int64  `json:"dropped"` // the same that it refused
	// Unrecorded are ends that were not kept for it, because too many waited: over all
	// replicas, of the targets below and of guests.
	Unrecorded int64 `json:"unrecorded"`
	// Unread are identities whose ends cannot be read from Redis, because another program's
	// value is in their place. The others are sent.
	Unread int `json:"unread"`
}

// Audit is about who took which token, as this replica writes it since its start.
type Audit struct {
	OK      bool   `json:"ok"`
	Reason  string `json:"reason"`  // why it cannot be written now; "" when ok
	Queued  int    `json:"queued"`  // entries that wait to be written
	Written int64  `json:"written"` // entries
	Dropped int64  `json:"dropped"` // entries that found no room to wait, or that were refused
}

// Provider is about one provider, for all replicas.
type Provider struct {
	Name        string   `json:"name"`
	State       string   `json:"state"`  // ok | busy | down
	Reason      string   `json:"reason"` // "" when ok
	Remedy      string   `json:"remedy"` // what an operator can do about it; "" = nothing is known
	Since       string   `json:"since"`  // when it went down, as the first replica met it; RFC 3339, UTC; "" unless down
	InFlight    int      `json:"in_flight"`
	Concurrency int      `json:"concurrency"`
	Balance     *float64 `json:"balance"`   // null = never read
	RetryAt     string   `json:"retry_at"`  // when one that is down may be asked again; RFC 3339, UTC; "" = not known, or now
	Callbacks   bool     `json:"callbacks"` // the file has it call back
	// CallsPerToken is how many calls it took for each token that it brought, at this
	// replica since its start, to one place; 0 where it brought none.
	CallsPerToken float64 `json:"calls_per_token"`
}

// Target is about one target, for all replicas. The counters run since
// the target's identity was first seen.
type Target struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Identity string `json:"identity"` // the hash of what shapes a solve: another one is another stock
	Owner    string `json:"owner"`
	State    string `json:"state"`    // ok | idle (wants nothing, nobody asks) | paused | starved | budget | refused
	Reason   string `json:"reason"`   // why it is so, as its callers are told (Cause); "" = there is nothing to explain
	RetryAt  string `json:"retry_at"` // of a refused one: when the next order is tried; RFC 3339, UTC; else ""
	// FailedInARow are orders that failed or were refused since the last solve, at all replicas.
	FailedInARow int      `json:"failed_in_a_row"`
	Marks        []string `json:"marks"` // what a person should look at: markFailing, markRejected
	Depth        int      `json:"depth"`
	Want         int      `json:"want"`
	Refill       string   `json:"refill"`   // fixed | adaptive
	Forecast     float64  `json:"forecast"` // adaptive: requests expected within one lead time
	Risk         float64  `json:"risk"`     // adaptive: that one finds nothing with `want` tokens ahead of it
	Limit        string   `json:"rail"`     // what keeps `want` or the orders below what is asked: depth, credit, probe, idle, paused; "" = nothing
	Credit       float64  `json:"credit"`   // adaptive: tokens that may still expire unused before only `min` is kept; below 0 that is so. 0 where fixed
	Warm         int      `json:"warm"`     // tokens that warm windows want ready; 0 = none runs or is about to
	// HitRateNeeds is what max_waste it takes to reach hit_rate, by the demand since the
	// shadow's `since`; null where that is reached, for fixed, and where shadow is null.
	HitRateNeeds *Need `json:"hit_rate_needs"`
	// Shadow is null where too few have asked to know.
	Shadow         *Shadow  `json:"shadow"`
	Sitekey        string   `json:"sitekey"`
	Pageurl        string   `json:"pageurl"`
	Fresh          int      `json:"fresh"`
	Ageing         int      `json:"ageing"`           // those of them that end before an order placed now lands
	InFlight       int      `json:"in_flight"`        // orders under way, also those whose fate is unknown
	BoughtInFlight int      `json:"bought_in_flight"` // those of them that bought counts
	Unknown        int      `json:"unknown"`          // those of them whose fate is unknown
	Waiting        int      `json:"waiting"`
	NextExpiry     *float64 `json:"next_expiry_s"` // until the next fresh token meets its margin; null = none is fresh
	pool.Figures
	HitRate         float64  `json:"hit_rate"`          // hits by requests that have an outcome; 0 without any
	BoughtPerServed float64  `json:"bought_per_served"` // bought by handed out; 0 where none was
	LeadTime        LeadTime `json:"lead_time_s"`
	Spent           Money    `json:"spent"` // by the prices of the file; null = the file has no price for it
	// Days are the UTC days of the last seven on which there was anything, today first;
	// never null.
	Days []TargetDay `json:"days"`
	Hour TargetHour  `json:"hour"`
	// Windows were made by POST, run or are to come; never null.
	Windows []WarmWindow `json:"windows"`
	// NearMisses are submits to the compatible endpoints that had this target but for some
	// fields, at this replica since its start, the latest first; never null.
	NearMisses []NearMiss `json:"near_misses"`
	// LastFailures are those of its last orders that failed, the latest first, 5 at most: of
	// this replica's since its start, or of those of the replica that watches the target; never
	// null.
	LastFailures []LastFailure `json:"last_failures"`
	// Budget is null where the target has none of its own.
	Budget *Budget `json:"budget"`
}

// LastFailure is an order that brought no token.
type LastFailure struct {
	At     string `json:"at"`     // RFC 3339, UTC
	Reason string `json:"reason"` // in the service's words where there are any
}

// NearMiss is submits that differ from a target in the same fields.
type NearMiss struct {
	Fields []string `json:"fields"` // as pools.yaml names them
	Count  int64    `json:"count"`
	LastAt string   `json:"last_at"` // RFC 3339, UTC
}

// Text is a near miss for people.
func (n NearMiss) Text() string {
	return "clients ask for it with another " + strings.Join(n.Fields, ", ")
}

// TargetHour are the figures of the last 60 minutes, the present one among them, over all
// replicas. What happened is of the minute in which a replica next looked at the stock.
type TargetHour struct {
	Requests int64   `json:"requests"`
	Hits     int64   `json:"hits"`
	Waited   int64   `json:"waited"`
	Misses   int64   `json:"misses"`
	Bought   int64   `json:"bought"`
	Solved   int64   `json:"solved"`
	HitRate  float64 `json:"hit_rate"` // hits by requests that have an outcome; 0 without any
	// Minutes are those in which there was anything, the oldest first; never null.
	Minutes []TargetMinute `json:"minutes"`
}

// TargetMinute are the figures of one minute.
type TargetMinute struct {
	At       string `json:"at"` // its begin; RFC 3339, UTC
	Requests int64  `json:"requests"`
	Hits     int64  `json:"hits"`
	Waited   int64  `json:"waited"`
	Misses   int64  `json:"misses"`
	Bought   int64  `json:"bought"`
	Solved   int64  `json:"solved"`
}

// TargetDay are the figures of one day, over all replicas.
type TargetDay struct {
	Date     string `json:"date"` // 2006-01-02
	Requests int64  `json:"requests"`
	Hits     int64  `json:"hits"`
	Waited   int64  `json:"waited"`
	Misses   int64  `json:"misses"`
	Bought   int64  `json:"bought"`
	Solved   int64  `json:"solved"`
	Failed   int64  `json:"failed"`
	Lost     int64  `json:"lost"`
	Expired  int64  `json:"expired"`
	Spent    Money  `json:"spent"` // null = the file has no price for it
}

// StateIdle is the state of a target that wants nothing because nobody asks; the other
// states are those of refill.
const StateIdle = "idle"

// The marks of a target.
const (
	markFailing  = "failing"         // one order after the other brings no token
	markRejected = "mostly_rejected" // most of the last reports say so
)

// WarmWindow is a time in which at least so many tokens are to be ready. The times
// are RFC 3339, UTC; one that runs begins where it began.
type WarmWindow struct {
	Tokens int    `json:"tokens"`
	From   string `json:"from"`
	Until  string `json:"until"`
}

// Budget is how much of a target's budgets is used; null = it has no such
// one.
type Budget struct {
	Hour *Usage `json:"hour"` // in the last 60 min
	Day  *Usage `json:"day"`  // in the last 24 h
}

// Solve is about what POST /solve buys for identities that no target has (guests), over
// all of them and all replicas. The counters are those of a target, never go back, and
// hold its ledger: docs/metrics.md.
type Solve struct {
	Owner          string `json:"owner"`  // "" = the file has no section
	Reason         string `json:"reason"` // why the figures are not those of now but the last known ones; "" = they are of now
	Guests         int    `json:"guests"` // those that anything is still known of
	Fresh          int    `json:"fresh"`
	InFlight       int    `json:"in_flight"`
	BoughtInFlight int    `json:"bought_in_flight"`
	Waiting        int    `json:"waiting"`
	pool.Figures
	Refused int64  `json:"refused"`
	Replays int64  `json:"replays"`
	Spent   Money  `json:"spent"` // null = the file lacks a price for it
	Budget  Budget `json:"budget"`
}

// Used reports whether there is anything to tell.
func (s *Solve) Used() bool {
	return s.Guests > 0 || s.Requests > 0 || s.Bought > 0 || s.Reason != ""
}

// Dedup counts the requests to POST /solve over all replicas, and how many of them got a
// token that another request had got too.
type Dedup struct {
	Requests int64      `json:"requests"`  // of all days: those that got a token, missed and refused
	Shared   int64      `json:"shared"`    // of them: shared_wait and shared_cache
	Saved    int64      `json:"saved"`     // shared and replay
	Missed   int64      `json:"missed"`    // no token came, in time or at all
	Refused  int64      `json:"refused"`   // answered that no token can come
	SavedPct float64    `json:"saved_pct"` // saved of 100 requests that got a token, to one place; 0 without any
	Days     []DedupDay `json:"days"`      // UTC, today first, 7 where all are known; never null
	Reason   string     `json:"reason"`    // why the figures are not those of now but the last known ones; "" = they are of now
}

// DedupDay is one UTC day.
type DedupDay struct {
	Date     string   `json:"date"` // 2006-01-02
	Requests int64    `json:"requests"`
	BySource BySource `json:"by_source"`
	Missed   int64    `json:"missed"`
	Refused  int64    `json:"refused"`
}

// Served is how many requests got a token.
func (d *Dedup) Served() int64 { return d.Requests - d.Missed - d.Refused }

// BySource counts requests by how they came by their token.
type BySource struct {
	Pool        int64 `json:"pool"`         // was waiting
	Solve       int64 `json:"solve"`        // was bought for it
	SharedWait  int64 `json:"shared_wait"`  // shared a solve that was under way
	SharedCache int64 `json:"shared_cache"` // shared one that had ended
	Replay      int64 `json:"replay"`       // repeated by Idempotency-Key
}

// Shadow is what the other way of refilling would have done with a target's
// demand of the last hours, as this replica saw it, beside what was done.
type Shadow struct {
	Refill string `json:"refill"` // what would have been: fixed | adaptive
	Depth  int    `json:"depth"`  // fixed: the depth; adaptive: the most kept and on order
	Since  string `json:"since"`  // RFC 3339, UTC
	// What was done since: requests that have an outcome, the share of them that
	// found a token, and the tokens that landed.
	Requests int64   `json:"requests"`
	HitRate  float64 `json:"hit_rate"`
	Bought   int64   `json:"bought"`
	// The same of the shadow.
	ShadowHitRate float64 `json:"shadow_hit_rate"`
	ShadowBought  int64   `json:"shadow_bought"`
	Text          string  `json:"text"` // all of it in a sentence for people
}

// Need is what it takes to reach the wanted hit rate.
type Need struct {
	MaxWaste   *float64 `json:"max_waste"`    // about the least that reaches it; null = none does
	HitRateNow float64  `json:"hit_rate_now"` // with the present one
	Text       string   `json:"text"`         // all of it in a sentence for people
}

// LeadTime is how long a solve takes, in seconds, over the last ones; 0 before
// the first.
type LeadTime struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
}

// Target finds one target's part; false if it came with a newer Set.
func (d *Document) Target(name string) (*Target, bool) {
	i, ok := slices.BinarySearchFunc(d.Targets, name, func(t Target, name string) int { return strings.Compare(t.Name, name) })
	if !ok {
		return nil, false
	}
	return &d.Targets[i], true
}

// Only returns the part of a document for somebody who may see some targets alone. The
// providers and the file are the daemon's and stay, without lines of the file that are
// about other targets. On-demand solves, what sharing saved and the history are of what
// others asked for, in part of identities that such a caller may not ask for, and go, as
// does the audit.
func (d *Document) Only(may func(target string) bool) *Document {
	part := *d
	part.Solve, part.Dedup, part.History, part.Audit = nil, nil, nil, nil
	part.Targets = []Target{}
	for i := range d.Targets {
		if may(d.Targets[i].Name) {
			part.Targets = append(part.Targets, d.Targets[i])
		}
	}
	part.Config.Problems, part.Config.Warnings, part.Config.Lasting = []string{}, []string{}, nil
	return &part
}
