package status

import (
	"maps"
	"slices"
	"strings"
	"time"

	"poold/internal/targets"
)

// Document is the response of GET /status.json. Fields may be added, but never removed or changed.
type Document struct {
	Version   string           `json:"version"`
	Ready     bool             `json:"ready"`      // whether /readyz responds with 200
	AsOf      string           `json:"as_of"`      // when the stock was read; RFC 3339, UTC
	StartedAt string           `json:"started_at"` // RFC 3339, UTC
	Alarms    []string         `json:"alarms"`     // reasons why poold cannot work now, one line each
	Currency  targets.Currency `json:"currency"`   // code or sign to show with amounts of money; "" = none
	Notices   []string         `json:"notices"`    // facts that the operator should know, one line each, for example that the provider is simulated
	Config    Config           `json:"config"`
	Redis     Redis            `json:"redis"`
	// Budget is the use of the overall budget in the last 24 h; null = there is no overall budget.
	Budget *Usage `json:"budget"`
	// Solve is null if the configuration file has no section `solve` and there is no guest.
	Solve *Solve `json:"solve"`
	// Dedup is null for a key that is limited to some targets.
	Dedup *Dedup `json:"dedup"`
	// History is null if no history is kept, and for a key that is limited to some targets.
	History *History `json:"history"`
	// Audit is null if no audit is kept, and for a key that is limited to some targets.
	Audit *Audit `json:"audit"`
	// Replicas has the live replicas, the oldest first; null while they are unknown.
	Replicas    []Replica  `json:"replicas"`
	DeadLetters int        `json:"dead_letters"` // callbacks at this replica that could not be stored yet
	Providers   []Provider `json:"providers"`    // providers in the order of their use
	// ProviderChanges has the last change of the provider with the most orders, for each type with one.
	ProviderChanges []ProviderChange `json:"provider_changes"`
	Targets         []Target         `json:"targets"` // sorted by name

	shared int // number of notices from sharedReasons; they are the first notices
}

// Replica is one live process of poold. Its last heartbeat is at most 5 s old.
type Replica struct {
	ID        string `json:"id"`
	Version   string `json:"version"`    // "" = unknown
	StartedAt string `json:"started_at"` // RFC 3339, UTC; "" = unknown
}

// Usage is the use of a budget, in solves.
type Usage struct {
	Used  int `json:"used"`
	Limit int `json:"limit"`
}

// Config is the state of the configuration file.
type Config struct {
	LoadedAt string   `json:"loaded_at"` // when the Set in use was loaded; RFC 3339, UTC
	OK       bool     `json:"ok"`        // the last attempt to load the file succeeded
	Problems []string `json:"problems"`  // problems of the last attempt: "pools.yaml:LINE: message"
	Warnings []string `json:"warnings"`  // unusual settings of the Set in use
	// Lasting contains the settings that only a restart changes, without secrets. The keys are paths
	// of YAML keys. For a key that is limited to some targets, Lasting is empty.
	Lasting map[string]string `json:"lasting"`
}

// Redis is the state of the store.
type Redis struct {
	Mode string `json:"mode"` // embedded | single | sentinel | cluster
	OK   bool   `json:"ok"`   // false = Redis cannot be used; the figures of the targets may be the last known ones
	// Reason explains why Redis is not ok or why a part of the targets cannot be read; otherwise "".
	Reason string `json:"reason"`
}

// History contains the state of this replica's writes to the history, and their counts since the
// start of the replica.
type History struct {
	OK      bool   `json:"ok"`
	Reason  string `json:"reason"`  // why the history cannot be written now; "" when ok
	Sent    int64  `json:"sent"`    // ended orders that the store accepted
	Dropped int64  `json:"dropped"` // ended orders that the store refused
	// Unrecorded is the number of ended orders that Redis did not keep for the history, because too
	// many ended orders were pending, over all replicas.
	Unrecorded int64 `json:"unrecorded"`

	since time.Time // begin of the outage; zero = unknown
}

// Audit contains the state of this replica's writes to the audit, and their counts since the start
// of the replica.
type Audit struct {
	OK      bool   `json:"ok"`
	Reason  string `json:"reason"`  // why the audit cannot be written now; "" when ok
	Queued  int    `json:"queued"`  // entries in memory
	Written int64  `json:"written"` // entries
	Dropped int64  `json:"dropped"` // entries that did not fit into the queue or that the store refused

	since time.Time // begin of the outage; zero = unknown
}

// Provider is the state of one provider, for all replicas.
type Provider struct {
	Name        string   `json:"name"`
	State       string   `json:"state"`  // ok | busy | down
	Reason      string   `json:"reason"` // "" when ok
	Remedy      string   `json:"remedy"` // what an operator can do; "" = unknown
	Since       string   `json:"since"`  // when the first replica found the provider down; RFC 3339, UTC; "" unless down
	InFlight    int      `json:"in_flight"`
	Concurrency int      `json:"concurrency"`
	Balance     *float64 `json:"balance"`   // null = never read
	RetryAt     string   `json:"retry_at"`  // if down: time of the next call; RFC 3339, UTC; "" = unknown, or now
	Callbacks   bool     `json:"callbacks"` // the provider has a callback_url in the configuration file
	// CallsPerToken is the number of this replica's calls per token since the start of the replica, to
	// one decimal place; 0 before the first token.
	CallsPerToken float64 `json:"calls_per_token"`
	// Types compares the provider with the others; empty with fewer than two providers.
	Types []ProviderType `json:"types"`
}

// Target is the state of one target, for all replicas. The counters of an identity begin when poold
// first sees the identity.
type Target struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Identity string `json:"identity"` // hash of all fields that determine a solve; each identity has its own stock
	Owner    string `json:"owner"`
	State    string `json:"state"`    // ok | idle (no requests, so no tokens wanted) | paused | starved | budget | refused
	Reason   string `json:"reason"`   // the cause of the state, as in responses to callers (Cause); "" = normal
	RetryAt  string `json:"retry_at"` // if refused: when the next order is tried; RFC 3339, UTC; else ""
	// FailedInARow is the number of orders that failed or were refused since the last solved order.
	FailedInARow   int      `json:"failed_in_a_row"`
	Marks          []string `json:"marks"` // warnings: markFailing, markRejected
	Depth          int      `json:"depth"`
	Want           int      `json:"want"`
	Refill         string   `json:"refill"`   // fixed | adaptive
	Forecast       float64  `json:"forecast"` // adaptive: requests expected within one lead time
	Risk           float64  `json:"risk"`     // adaptive: probability that a request finds no token while `want` tokens are kept
	Limit          string   `json:"rail"`     // what limits `want` or the orders: depth, credit, probe, idle, paused; "" = nothing
	Credit         float64  `json:"credit"`   // adaptive: number of tokens that may still expire unused; if negative, only `min` tokens are kept. fixed: 0
	Warm           int      `json:"warm"`     // number of tokens that warm windows require; 0 = no window runs or begins soon
	Sitekey        string   `json:"sitekey"`
	Pageurl        string   `json:"pageurl"`
	Fresh          int      `json:"fresh"`
	Ageing         int      `json:"ageing"`           // fresh tokens that expire before a new order would land
	InFlight       int      `json:"in_flight"`        // orders in flight, including unknown
	BoughtInFlight int      `json:"bought_in_flight"` // orders in flight that are included in `bought`
	Unknown        int      `json:"unknown"`          // orders in flight that may or may not have been bought
	Waiting        int      `json:"waiting"`
	NextExpiry     *float64 `json:"next_expiry_s"` // time until the next fresh token enters its margin; null = no fresh token
	Counters
	HitRate         float64  `json:"hit_rate"`          // hits per request with an outcome; 0 without such requests
	BoughtPerServed float64  `json:"bought_per_served"` // tokens bought per token handed out; 0 without hand-outs
	LeadTime        LeadTime `json:"lead_time_s"`
	Spent           Money    `json:"spent"` // by the prices of the configuration file; null = no price is known
	// Days contains the days of the last seven UTC days that have a count, today first; never null.
	Days []TargetDay `json:"days"`
	Hour TargetHour  `json:"hour"`
	// LastFailures contains at most 5 failed orders, the latest first; never null.
	LastFailures []LastFailure `json:"last_failures"`
	// Budget is null if the target has no budget.
	Budget *Budget `json:"budget"`
}

// LastFailure is an order that ended without a token.
type LastFailure struct {
	At     string `json:"at"`     // RFC 3339, UTC
	Reason string `json:"reason"` // reason in the words of the service; "" = no reason
}

// StateIdle is the state of a target that wants no tokens because it has no requests. Package
// refill defines the other states.
const StateIdle = "idle"

// These are the possible marks of a target.
const (
	markFailing  = "failing"         // orders fail one after the other
	markRejected = "mostly_rejected" // most of the recent reports are rejections
)

// Budget is the use of a target's budgets. A field is null if the target has no such budget.
type Budget struct {
	Hour *Usage `json:"hour"` // in the last 60 min
	Day  *Usage `json:"day"`  // in the last 24 h
}

// Solve contains the sums over all guests and all replicas. Guests are the identities without a
// target for which POST /solve buys tokens. The counters have the same meaning as those of a
// target. They never decrease, and they satisfy the equation in docs/metrics.md.
type Solve struct {
	Owner          string `json:"owner"`  // "" = the configuration file has no section `solve`
	Reason         string `json:"reason"` // why the figures are not current; "" = they are current
	Guests         int    `json:"guests"` // number of guests that Redis still has
	Fresh          int    `json:"fresh"`
	InFlight       int    `json:"in_flight"`
	BoughtInFlight int    `json:"bought_in_flight"`
	Waiting        int    `json:"waiting"`
	Counters
	Refused int64  `json:"refused"`
	Replays int64  `json:"replays"`
	Spent   Money  `json:"spent"` // null = no price is known
	Budget  Budget `json:"budget"`
}

// Used reports whether POST /solve was used. If the figures are not current, the result is also true.
func (s *Solve) Used() bool {
	return s.Guests > 0 || s.Requests > 0 || s.Bought > 0 || s.Reason != ""
}

// Dedup counts the requests to POST /solve over all replicas, and the requests that got the token
// of another request.
type Dedup struct {
	Requests int64      `json:"requests"`  // all requests in the field Days: with a token, missed and refused
	Shared   int64      `json:"shared"`    // sum of shared_wait and shared_cache
	Saved    int64      `json:"saved"`     // sum of shared and replay
	Missed   int64      `json:"missed"`    // no token came in time
	Refused  int64      `json:"refused"`   // refused because no token could come
	SavedPct float64    `json:"saved_pct"` // saved solves per 100 requests with a token, to one decimal place; 0 without such requests
	Days     []DedupDay `json:"days"`      // UTC days, today first; never null; 7 days unless some days are unknown
	Reason   string     `json:"reason"`    // why the figures are not current; "" = they are current
}

// DedupDay contains the counts of one UTC day.
type DedupDay struct {
	Date     string   `json:"date"` // 2006-01-02
	Requests int64    `json:"requests"`
	BySource BySource `json:"by_source"`
	Missed   int64    `json:"missed"`
	Refused  int64    `json:"refused"`
}

// Served returns the number of requests that got a token.
func (d *Dedup) Served() int64 { return d.Requests - d.Missed - d.Refused }

// BySource counts requests by the source of the token.
type BySource struct {
	Pool        int64 `json:"pool"`         // the token was ready
	Solve       int64 `json:"solve"`        // the token was bought for the request
	SharedWait  int64 `json:"shared_wait"`  // the request shared a solve in flight
	SharedCache int64 `json:"shared_cache"` // the request shared a solve that had ended
	Replay      int64 `json:"replay"`       // the token was repeated for an Idempotency-Key
}

// LeadTime contains percentiles of the duration of the last solves, in seconds; 0 before the first
// solve.
type LeadTime struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
}

// DayTotals returns the sums of each day over all targets, today first.
func (d *Document) DayTotals() []TargetDay {
	byDate := map[string]TargetDay{}
	for i := range d.Targets {
		for _, day := range d.Targets[i].Days {
			if sum, ok := byDate[day.Date]; ok {
				sum.add(day.Counts)
				sum.Failed += day.Failed
				sum.Lost += day.Lost
				sum.Expired += day.Expired
				sum.Spent = sum.Spent.plus(day.Spent)
				day = sum
			}
			byDate[day.Date] = day
		}
	}
	totals := []TargetDay{}
	for _, date := range slices.Backward(slices.Sorted(maps.Keys(byDate))) {
		totals = append(totals, byDate[date])
	}
	return totals
}

// Target returns the target with this name. The second result is false if the document lacks the
// target, for example because only a newer Set contains the target.
func (d *Document) Target(name string) (*Target, bool) {
	i, ok := slices.BinarySearchFunc(d.Targets, name, func(t Target, name string) int { return strings.Compare(t.Name, name) })
	if !ok {
		return nil, false
	}
	return &d.Targets[i], true
}

// Part returns the part of the document for a key that is limited to some targets. This part
// includes the providers and the state of the configuration file. The notices about shared reasons
// cover only the targets of this part. Part does not include the file's problems and warnings,
// because these may name other targets. Part omits Solve, Dedup, History and Audit, because these
// cover the requests of other keys. Part also omits Replicas.
func (d *Document) Part(may func(target string) bool) *Document {
	part := *d
	part.Solve, part.Dedup, part.History, part.Audit, part.Replicas = nil, nil, nil, nil, nil
	part.Targets = []Target{}
	for i := range d.Targets {
		if may(d.Targets[i].Name) {
			part.Targets = append(part.Targets, d.Targets[i])
		}
	}
	shared := sharedReasons(&part)
	part.Notices, part.shared = append(shared, d.Notices[d.shared:]...), len(shared)
	part.Config.Problems, part.Config.Warnings, part.Config.Lasting = []string{}, []string{}, map[string]string{}
	return &part
}
