package status

import (
	"maps"
	"slices"
	"strings"

	"poold/internal/pool"
)

// Document is /status.json. Fields may be added, but never removed or changed.
type Document struct {
	Version   string   `json:"version"`
	Ready     bool     `json:"ready"`      // as /readyz says
	AsOf      string   `json:"as_of"`      // when the stock was asked; RFC 3339, UTC
	StartedAt string   `json:"started_at"` // RFC 3339, UTC
	Alarms    []string `json:"alarms"`     // why it cannot work now
	Notices   []string `json:"notices"`    // facts about this installation, e.g. that its provider is simulated
	Config    Config   `json:"config"`
	Redis     Redis    `json:"redis"`
	// Budget is the overall budget in the last 24 h; null = there is none.
	Budget *Usage `json:"budget"`
	// Solve is null if the file has no section `solve` and there is no guest.
	Solve *Solve `json:"solve"`
	// Dedup is null for a key that is limited to some targets.
	Dedup *Dedup `json:"dedup"`
	// History is null if none is kept, and for a key that is limited to some targets.
	History *History `json:"history"`
	// Audit is null if none is kept, and for a key that is limited to some targets.
	Audit       *Audit     `json:"audit"`
	DeadLetters int        `json:"dead_letters"` // callbacks at this replica that could not be stored yet
	Providers   []Provider `json:"providers"`    // in the order of use
	Targets     []Target   `json:"targets"`      // sorted by name
}

// Usage is the use of a budget, in solves.
type Usage struct {
	Used  int `json:"used"`
	Limit int `json:"limit"`
}

// Config is the state of the configuration file.
type Config struct {
	LoadedAt string   `json:"loaded_at"` // of the Set in use; RFC 3339, UTC
	OK       bool     `json:"ok"`        // the last attempt to load it was good
	Problems []string `json:"problems"`  // of the last attempt: "pools.yaml:LINE: message"
	Warnings []string `json:"warnings"`  // unusual settings of the Set in use
	// Lasting are the settings that only a restart changes, by the path of the YAML key and
	// without secrets; null for a key that is limited to some targets.
	Lasting map[string]string `json:"lasting"`
}

// Redis is the state of the store.
type Redis struct {
	Mode string `json:"mode"` // embedded | single | sentinel | cluster
	OK   bool   `json:"ok"`   // false: it cannot be used; the figures of the targets may be the last known ones
	// Reason is the reason why it is not ok, or why a part of the targets cannot be read; else "".
	Reason string `json:"reason"`
}

// History is the writing of the history by this replica since its start.
type History struct {
	OK      bool   `json:"ok"`
	Reason  string `json:"reason"`  // why it cannot be written now; "" when ok
	Sent    int64  `json:"sent"`    // ends of orders that the store took
	Dropped int64  `json:"dropped"` // ends of orders that the store refused
	// Unrecorded are ends that Redis did not keep for the store, because too many were pending:
	// over all replicas, of the targets below and of guests.
	Unrecorded int64 `json:"unrecorded"`
	// Unread is the number of identities whose ends cannot be read from Redis, because a foreign
	// value has their key.
	Unread int `json:"unread"`
}

// Audit is the writing of the audit by this replica since its start.
type Audit struct {
	OK      bool   `json:"ok"`
	Reason  string `json:"reason"`  // why it cannot be written now; "" when ok
	Queued  int    `json:"queued"`  // entries in memory
	Written int64  `json:"written"` // entries
	Dropped int64  `json:"dropped"` // entries that the queue had no room for, or that the store refused
}

// Provider is the state of one provider, for all replicas.
type Provider struct {
	Name        string   `json:"name"`
	State       string   `json:"state"`  // ok | busy | down
	Reason      string   `json:"reason"` // "" when ok
	Remedy      string   `json:"remedy"` // what an operator can do; "" = unknown
	Since       string   `json:"since"`  // when the first replica found it down; RFC 3339, UTC; "" unless down
	InFlight    int      `json:"in_flight"`
	Concurrency int      `json:"concurrency"`
	Balance     *float64 `json:"balance"`   // null = never read
	RetryAt     string   `json:"retry_at"`  // when it may be asked again if it is down; RFC 3339, UTC; "" = unknown, or now
	Callbacks   bool     `json:"callbacks"` // the file has a callback_url for it
	// CallsPerToken is the number of calls for each token, at this replica since its start, to one
	// decimal place; 0 if it brought none.
	CallsPerToken float64 `json:"calls_per_token"`
}

// Target is the state of one target, for all replicas. The counters begin when the identity is
// first seen.
type Target struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Identity string `json:"identity"` // hash of all that shapes a solve; each identity has its stock
	Owner    string `json:"owner"`
	State    string `json:"state"`    // ok | idle (wants nothing, no requests) | paused | starved | budget | refused
	Reason   string `json:"reason"`   // the cause of the state, as in answers to callers (Cause); "" = normal
	RetryAt  string `json:"retry_at"` // refused: when the next order is tried; RFC 3339, UTC; else ""
	// FailedInARow is the number of orders that failed or were refused since the last solve.
	FailedInARow int      `json:"failed_in_a_row"`
	Marks        []string `json:"marks"` // reasons to look at it: markFailing, markRejected
	Depth        int      `json:"depth"`
	Want         int      `json:"want"`
	Refill       string   `json:"refill"`   // fixed | adaptive
	Forecast     float64  `json:"forecast"` // adaptive: requests expected within one lead time
	Risk         float64  `json:"risk"`     // adaptive: probability that a request finds no token with `want` of them kept
	Limit        string   `json:"rail"`     // what limits `want` or the orders: depth, credit, probe, idle, paused; "" = nothing
	Credit       float64  `json:"credit"`   // adaptive: tokens that may still expire unused; below 0 only `min` is kept. fixed: 0
	Warm         int      `json:"warm"`     // tokens that warm windows want ready; 0 = no window runs or is near
	// HitRateNeeds is the max_waste that reaches hit_rate, by the demand since the shadow's `since`;
	// null if hit_rate is reached, for fixed, and if shadow is null.
	HitRateNeeds *Need `json:"hit_rate_needs"`
	// Shadow is null after too few requests.
	Shadow         *Shadow  `json:"shadow"`
	Sitekey        string   `json:"sitekey"`
	Pageurl        string   `json:"pageurl"`
	Fresh          int      `json:"fresh"`
	Ageing         int      `json:"ageing"`           // fresh tokens that expire before an order placed now lands
	InFlight       int      `json:"in_flight"`        // orders in flight, including unknown
	BoughtInFlight int      `json:"bought_in_flight"` // orders in flight that bought counts
	Unknown        int      `json:"unknown"`          // orders in flight that may or may not have been bought
	Waiting        int      `json:"waiting"`
	NextExpiry     *float64 `json:"next_expiry_s"` // until the next fresh token reaches its margin; null = none is fresh
	pool.Figures
	HitRate         float64  `json:"hit_rate"`          // hits per request with an outcome; 0 without any
	BoughtPerServed float64  `json:"bought_per_served"` // bought per token handed out; 0 without any
	LeadTime        LeadTime `json:"lead_time_s"`
	Spent           Money    `json:"spent"` // by the prices of the file; null = the file has no price for it
	// Days are the UTC days of the last seven with any count, today first; never null.
	Days []TargetDay `json:"days"`
	Hour TargetHour  `json:"hour"`
	// Windows are the present and future warm windows that were made by POST; never null.
	Windows []WarmWindow `json:"windows"`
	// NearMisses are submits to the compatible endpoints that differ from this target in some
	// fields, at this replica since its start, the latest first; never null.
	NearMisses []NearMiss `json:"near_misses"`
	// LastFailures are at most 5 failed orders, the latest first: of this replica since its start,
	// or of the replica that watches the target; never null.
	LastFailures []LastFailure `json:"last_failures"`
	// Budget is null if the target has none.
	Budget *Budget `json:"budget"`
}

// LastFailure is an order that ended without a token.
type LastFailure struct {
	At     string `json:"at"`     // RFC 3339, UTC
	Reason string `json:"reason"` // in the service's words if it gave any
}

// NearMiss counts submits that differ from a target in the same fields.
type NearMiss struct {
	Fields []string `json:"fields"` // as pools.yaml names them
	Count  int64    `json:"count"`
	LastAt string   `json:"last_at"` // RFC 3339, UTC
}

// Text returns the near miss as a sentence.
func (n NearMiss) Text() string {
	return "clients ask for it with another " + strings.Join(n.Fields, ", ")
}

// Counts are the events of a span, over all replicas.
type Counts struct {
	Requests int64 `json:"requests"`
	Hits     int64 `json:"hits"`
	Waited   int64 `json:"waited"`
	Misses   int64 `json:"misses"`
	Bought   int64 `json:"bought"`
	Solved   int64 `json:"solved"`
}

// TargetHour are the last 60 minutes, including the present one. An event counts in the minute in
// which a replica next looks at the stock.
type TargetHour struct {
	Counts
	HitRate float64 `json:"hit_rate"` // hits per request with an outcome; 0 without any
	// Minutes are the minutes with any count, the oldest first; never null.
	Minutes []TargetMinute `json:"minutes"`
}

// TargetMinute is one minute.
type TargetMinute struct {
	At string `json:"at"` // its begin; RFC 3339, UTC
	Counts
}

// TargetDay is one UTC day.
type TargetDay struct {
	Date string `json:"date"` // 2006-01-02
	Counts
	Failed  int64 `json:"failed"`
	Lost    int64 `json:"lost"`
	Expired int64 `json:"expired"`
	Spent   Money `json:"spent"` // null = the file has no price for it
}

// StateIdle is the state of a target that wants nothing because it has no requests. The other
// states are refill's.
const StateIdle = "idle"

// The marks of a target.
const (
	markFailing  = "failing"         // its orders fail one after the other
	markRejected = "mostly_rejected" // most of the last reports are rejections
)

// WarmWindow is a span in which at least Tokens tokens should be ready. The times are RFC 3339,
// UTC; From may be in the past.
type WarmWindow struct {
	Tokens int    `json:"tokens"`
	From   string `json:"from"`
	Until  string `json:"until"`
}

// Budget is the use of a target's budgets; null = it has no such budget.
type Budget struct {
	Hour *Usage `json:"hour"` // in the last 60 min
	Day  *Usage `json:"day"`  // in the last 24 h
}

// Solve is the sum over all guests: the identities without a target that POST /solve buys for. It
// covers all replicas. The counters are a target's, never fall, and balance as in docs/metrics.md.
type Solve struct {
	Owner          string `json:"owner"`  // "" = the file has no section
	Reason         string `json:"reason"` // why the figures are the last known ones; "" = they are current
	Guests         int    `json:"guests"` // guests that Redis still has
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

// Used reports whether POST /solve was used.
func (s *Solve) Used() bool {
	return s.Guests > 0 || s.Requests > 0 || s.Bought > 0 || s.Reason != ""
}

// Dedup counts the requests to POST /solve over all replicas, and those that got the token of
// another request.
type Dedup struct {
	Requests int64      `json:"requests"`  // of all days: with a token, missed and refused
	Shared   int64      `json:"shared"`    // shared_wait and shared_cache
	Saved    int64      `json:"saved"`     // shared and replay
	Missed   int64      `json:"missed"`    // no token came, in time or at all
	Refused  int64      `json:"refused"`   // answered that no token can come
	SavedPct float64    `json:"saved_pct"` // saved per 100 requests with a token, to one place; 0 without any
	Days     []DedupDay `json:"days"`      // UTC, today first, 7 if all are known; never null
	Reason   string     `json:"reason"`    // why the figures are the last known ones; "" = they are current
}

// DedupDay is one UTC day.
type DedupDay struct {
	Date     string   `json:"date"` // 2006-01-02
	Requests int64    `json:"requests"`
	BySource BySource `json:"by_source"`
	Missed   int64    `json:"missed"`
	Refused  int64    `json:"refused"`
}

// Served is the number of requests that got a token.
func (d *Dedup) Served() int64 { return d.Requests - d.Missed - d.Refused }

// BySource counts requests by the source of their token.
type BySource struct {
	Pool        int64 `json:"pool"`         // was waiting
	Solve       int64 `json:"solve"`        // was bought for the request
	SharedWait  int64 `json:"shared_wait"`  // shared a solve in flight
	SharedCache int64 `json:"shared_cache"` // shared a solve that had ended
	Replay      int64 `json:"replay"`       // repeated by Idempotency-Key
}

// Shadow compares the refilling of a target with the other refill mode, on the demand of the last
// hours as this replica saw it.
type Shadow struct {
	Refill string `json:"refill"` // the other mode: fixed | adaptive
	Depth  int    `json:"depth"`  // fixed: the depth; adaptive: the most tokens kept and on order
	Since  string `json:"since"`  // RFC 3339, UTC
	// The target since then: requests with an outcome, the share of them that found a token, and the
	// tokens that landed.
	Requests int64   `json:"requests"`
	HitRate  float64 `json:"hit_rate"`
	Bought   int64   `json:"bought"`
	// The same in the other mode.
	ShadowHitRate float64 `json:"shadow_hit_rate"`
	ShadowBought  int64   `json:"shadow_bought"`
	Text          string  `json:"text"` // the comparison as a sentence
}

// Need is the setting that reaches the wanted hit rate.
type Need struct {
	MaxWaste   *float64 `json:"max_waste"`    // about the least that reaches it; null = none does
	HitRateNow float64  `json:"hit_rate_now"` // with the present max_waste
	Text       string   `json:"text"`         // the need as a sentence
}

// LeadTime is the duration of the last solves, in seconds; 0 before the first.
type LeadTime struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
}

// DayTotals sums the days of all targets, today first.
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

// Target returns the target of a name; false if the document has none, for example because it
// came with a newer Set.
func (d *Document) Target(name string) (*Target, bool) {
	i, ok := slices.BinarySearchFunc(d.Targets, name, func(t Target, name string) int { return strings.Compare(t.Name, name) })
	if !ok {
		return nil, false
	}
	return &d.Targets[i], true
}

// Only returns the part of the document for a key that is limited to some targets. The providers
// and the state of the file stay, without its lines, which may name other targets. Solve, Dedup,
// History and Audit cover the requests of others and are left out.
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
