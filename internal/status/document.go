package status

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"poold/internal/captcha"
	"poold/internal/history"
	"poold/internal/pool"
	"poold/internal/strictjson"
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
	// facts that the operator should know, one line each, for example that the provider is simulated
	Notices []string `json:"notices"`
	Config  Config   `json:"config"`
	Redis   Redis    `json:"redis"`
	// Budget is the use of the overall budget in the last 24 h; null = no overall budget.
	Budget *Usage `json:"budget"`
	// Budgets has the use of the other shared budgets: the overall budget in money, and the budgets of owners and keys;
	// empty for a key that is limited to some targets.
	Budgets []BudgetUse `json:"budgets"`
	// SpentToday is the cost of all orders that ended on this UTC day; null = unknown, and for a key that is limited to
	// some targets.
	SpentToday *Amount `json:"spent_today"`
	// Solve is null without a section `solve` in the configuration file and without guests.
	Solve *Solve `json:"solve"`
	// Savings is null for a key that is limited to some targets.
	Savings *Savings `json:"savings"`
	// History is null if no history is kept, and for a key that is limited to some targets.
	History *History `json:"history"`
	// Replicas has the live replicas, the oldest first; null while they are unknown.
	Replicas    []Replica  `json:"replicas"`
	DeadLetters int        `json:"dead_letters"` // callbacks at this replica that could not be stored yet
	Providers   []Provider `json:"providers"`    // providers in the order of their use
	Targets     []Target   `json:"targets"`      // sorted by name

	// Failing is the first alarm about targets whose orders fail; "" = none do.
	Failing string `json:"-"`

	set      *targets.Set
	shared   struct{ alarms, notices []string } // those that are not about targets
	changes  uint64                             // calls of Collector.Changed before it
	at       time.Time                          // when it was built
	until    time.Time                          // when it is no longer fresh
	encode   func() []byte                      // shared by all readers
	dataLost bool                               // Redis lost its data within a day
	summed   bool                               // the figures over all targets and guests are current
}

// Replica is one live process of poold. Its last beat is at most 5 s old.
type Replica struct {
	ID        string `json:"id"`
	Version   string `json:"version"`    // "" = unknown
	StartedAt string `json:"started_at"` // RFC 3339, UTC; "" = unknown
	Address   string `json:"address"`    // HOST:PORT; "" = unknown
}

// Usage is the use of a budget, in solves or in the currency.
type Usage struct {
	Used  float64 `json:"used"`
	Limit float64 `json:"limit"`
}

// BudgetUse is the use of a budget in one window.
type BudgetUse struct {
	Scope  string `json:"scope"`  // overall, owner:NAME or key:NAME
	Window string `json:"window"` // hour and day: solves; money_day and money_month: on this UTC day or in this month
	Usage
}

// Config is the state of the configuration file.
type Config struct {
	LoadedAt  string   `json:"loaded_at"`  // when the Set in use was loaded; RFC 3339, UTC
	OK        bool     `json:"ok"`         // the last attempt to load the file succeeded
	RefusedAt string   `json:"refused_at"` // since when the file is refused; RFC 3339, UTC; "" = it is in use
	Problems  []string `json:"problems"`   // problems of the last attempt: "pools.yaml:LINE: message"
	Warnings  []string `json:"warnings"`   // unusual settings of the Set in use
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
	Sent    int64  `json:"sent"`    // rows that the store accepted: ended orders, hand-outs and reports
	Dropped int64  `json:"dropped"` // rows that the store refused
	Waiting int64  `json:"waiting"` // rows that wait in Redis, of all replicas
	// Unrecorded is the number of rows, over all replicas, for which Redis had no room because too many rows waited.
	Unrecorded int64 `json:"unrecorded"`

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
	Balance     *float64 `json:"balance"`   // null = unknown, as during a fault of the account
	RetryAt     string   `json:"retry_at"`  // if down: time of the next call; RFC 3339, UTC; "" = unknown, or now
	Callbacks   bool     `json:"callbacks"` // the provider has a callback_url in the configuration file
	// Types compares the provider with the others; empty with fewer than two providers.
	Types []ProviderType `json:"types"`
}

// Target is the state of one target, for all replicas. The counters of an identity begin when poold
// first sees the identity. Members that are 0 or empty with most targets are then absent: 10,000 targets have 9 MB.
type Target struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Identity string `json:"identity"` // ID of the identity (captcha.ID); each identity has its own stock
	Owner    string `json:"owner"`
	// ok | idle (no requests, so no tokens wanted) | paused | starved | budget | refused
	State  string `json:"state"`
	Reason string `json:"reason"` // the cause of the state, as in responses to callers (Cause); "" = normal
	// when the target entered its state starved, budget or refused, if known; RFC 3339, UTC; else ""
	Since   string `json:"since,omitzero"`
	RetryAt string `json:"retry_at,omitzero"` // if refused: when the next order is tried; RFC 3339, UTC; else ""
	// FailedInARow is the number of orders that failed or were refused since the last solved order.
	FailedInARow int      `json:"failed_in_a_row,omitzero"`
	Marks        []string `json:"marks"` // warnings: markFailing, markRejected
	Depth        int      `json:"depth"`
	Want         int      `json:"want"`
	Refill       string   `json:"refill"`            // fixed | adaptive
	Forecast     float64  `json:"forecast,omitzero"` // adaptive: requests expected within one lead time
	// adaptive: probability that a request finds no token while `want` tokens are kept
	Risk float64 `json:"risk,omitzero"`
	// what limits `want` or the orders: depth, credit, probe, idle, paused; "" = nothing
	LimitedBy string `json:"limited_by,omitzero"`
	// adaptive: number of tokens that may still expire unused; if negative, only `min` tokens are kept. fixed: 0
	Credit float64 `json:"credit,omitzero"`
	// number of tokens that warm windows require; 0 = no window runs or begins soon
	Warm           int    `json:"warm,omitzero"`
	Sitekey        string `json:"sitekey"`
	Pageurl        string `json:"pageurl"`
	Fresh          int    `json:"fresh"`
	Ageing         int    `json:"ageing"`           // fresh tokens that expire before a new order would land
	InFlight       int    `json:"in_flight"`        // orders in flight, including unknown
	BoughtInFlight int    `json:"bought_in_flight"` // orders in flight that are included in `bought`
	Unknown        int    `json:"unknown,omitzero"` // orders in flight that may or may not have been bought
	Waiting        int    `json:"waiting"`
	// time until the next fresh token enters its margin; null = no fresh token
	NextExpiry *float64 `json:"next_expiry_s"`
	Counters
	HitRate         float64  `json:"hit_rate"`          // hits per request with an outcome; 0 without such requests
	BoughtPerServed float64  `json:"bought_per_served"` // tokens bought per token handed out; 0 without hand-outs
	LeadTime        LeadTime `json:"lead_time_s"`
	Spent           Amount   `json:"spent"` // by the prices of the configuration file; null = no price is known
	// Days contains the days of the last seven UTC days that have a count, today first; never null.
	Days []TargetDay `json:"days"`
	Hour TargetHour  `json:"hour"`
	// LastFailures contains at most 5 failed orders, the latest first; never null.
	LastFailures []LastFailure `json:"last_failures"`
	// Budget is nil if the target has no budget.
	Budget *Windows `json:"budget,omitzero"`

	counted   pool.Counters // for the metrics
	objective float64       // hit_rate of the file
	unread    bool          // the figures are the last known ones
	outage    bool          // the reason is that all providers are down
}

// Today returns what the target has spent on the UTC day of a document.
func (t *Target) Today(asOf string) Amount {
	if len(t.Days) > 0 && strings.HasPrefix(asOf, t.Days[0].Date) {
		return t.Days[0].Spent
	}
	return 0
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

// Windows has the use of a target's budget in each window. A field is null if no limit has this window.
type Windows struct {
	Hour *Usage `json:"hour"` // in the last 60 min
	Day  *Usage `json:"day"`  // in the last 24 h
	// Money on this UTC day, and in this UTC month.
	MoneyDay   *Usage `json:"money_day,omitzero"`
	MoneyMonth *Usage `json:"money_month,omitzero"`
}

// windows has the words that follow the use of a budget. The scripts of package pool use the same words.
var windows = map[string]string{
	"hour": " solves in the last 60 minutes", "day": " solves in the last 24 hours", "money_day": " on this UTC day",
	"money_month": " in this UTC month",
}

// Text says how much of the budget is used: $4.99 of $5 on this UTC day.
func (u BudgetUse) Text(c targets.Currency) string {
	used, limit := strconv.FormatFloat(u.Used, 'f', -1, 64), strconv.FormatFloat(u.Limit, 'f', -1, 64)
	if strings.HasPrefix(u.Window, "money") {
		used, limit = c.With(used), c.With(limit)
	}
	return used + " of " + limit + windows[u.Window]
}

// Uses lists each budget of a scope with its use.
func (b *Windows) Uses(scope string) (list []BudgetUse) {
	names := []string{"hour", "day", "money_day", "money_month"}
	for i, u := range []*Usage{b.Hour, b.Day, b.MoneyDay, b.MoneyMonth} {
		if u != nil {
			list = append(list, BudgetUse{scope, names[i], *u})
		}
	}
	return list
}

// Solve contains the sums over all guests and all replicas. Guests are the identities without a
// target for which POST /solve buys tokens. The counters have the same meaning as a target's
// counters. They never decrease, and they satisfy the equation in docs/operating.md.
type Solve struct {
	Owner          string `json:"owner"`  // "" = the configuration file has no section `solve`
	Reason         string `json:"reason"` // why the figures are not current; "" = they are current
	Guests         int    `json:"guests"` // number of guests that Redis still has
	Fresh          int    `json:"fresh"`
	InFlight       int    `json:"in_flight"`
	BoughtInFlight int    `json:"bought_in_flight"`
	Waiting        int    `json:"waiting"`
	Counters
	Denied  int64   `json:"denied"` // requests for which no token could come
	Replays int64   `json:"replays"`
	Spent   Amount  `json:"spent"` // null = no price is known
	Budget  Windows `json:"budget"`

	counted pool.Counters // for the metrics
}

// Used reports whether POST /solve was used. If the figures are not current, the result is also true.
func (s *Solve) Used() bool {
	return s.Guests > 0 || s.Requests > 0 || s.Bought > 0 || s.Reason != ""
}

// Savings counts the requests to POST /solve in the last seven UTC days, over all replicas, and the requests that got
// the token of another request.
type Savings struct {
	Requests int64 `json:"requests"` // all requests in the field Days: with a token, missed and denied
	Saved    int64 `json:"saved"`    // sum of shared_wait, shared_cache and replay
	Missed   int64 `json:"missed"`   // no token came in time
	Denied   int64 `json:"denied"`   // no token could come
	// saved solves per 100 requests with a token, to one decimal place; 0 without such requests
	SavedPct float64           `json:"saved_pct"`
	Days     []pool.SavingsDay `json:"days"`   // UTC days, today first; never null
	Reason   string            `json:"reason"` // why the figures are not current; "" = they are current
}

// Served returns the number of requests that got a token.
func (d *Savings) Served() int64 { return d.Requests - d.Missed - d.Denied }

// LeadTime contains percentiles of the duration of the last solves, in seconds; 0 before the first
// solve.
type LeadTime struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
}

// OfTarget begins the scope of a target's budget in BudgetUses.
const OfTarget = "target:"

// BudgetUses lists the uses of all budgets whose figures are current. The scope of a target is "target:NAME".
func (d *Document) BudgetUses() (list []BudgetUse) {
	if d.summed {
		list = append((&Windows{Day: d.Budget}).Uses(pool.ScopeOverall), d.Budgets...)
		if d.Solve != nil {
			list = append(list, d.Solve.Budget.Uses(pool.ScopeSolve)...)
		}
	}
	return append(list, d.TargetBudgets()...)
}

// TargetBudgets lists the uses of the budgets of targets.
func (d *Document) TargetBudgets() (list []BudgetUse) {
	for i := range d.Targets {
		if t := &d.Targets[i]; t.Budget != nil && !t.unread {
			list = append(list, t.Budget.Uses(OfTarget+t.Name)...)
		}
	}
	return list
}

// JSON returns the encoded document. All callers share one encoding, so the result is read-only.
func (d *Document) JSON() []byte { return d.encode() }

func (d *Document) toJSON() []byte { return append(strictjson.Encode(d), '\n') }

// Target returns the target with this name. The second result is false if the document lacks the
// target, for example because only a newer Set contains the target.
func (d *Document) Target(name string) (*Target, bool) {
	i := slices.IndexFunc(d.Targets, func(t Target) bool { return t.Name == name })
	if i < 0 {
		return nil, false
	}
	return &d.Targets[i], true
}

// Part returns the document for a key that is limited to some targets. It leaves out all that could name other targets
// or counts requests of other keys.
func (d *Document) Part(may func(target string) bool) *Document {
	part := *d
	part.Solve, part.Savings, part.History, part.Replicas, part.SpentToday = nil, nil, nil, nil, nil
	part.Budgets = []BudgetUse{}
	part.Targets = []Target{}
	for i := range d.Targets {
		if may(d.Targets[i].Name) {
			part.Targets = append(part.Targets, d.Targets[i])
		}
	}
	part.Config.Problems, part.Config.Warnings = []string{}, []string{}
	part.announceTargets()
	part.encode = part.toJSON
	return &part
}

// Counts contains the numbers of events in a period, over all replicas.
type Counts struct {
	// Requests is the sum of Hits, Waited and Missed, of the callers that stopped waiting earlier, and of the requests
	// of POST /solve that were refused. The total of an identity also has the callers that wait.
	Requests int64 `json:"requests"`
	Hits     int64 `json:"hits"`   // callers that got a token at once
	Waited   int64 `json:"waited"` // callers that got a token that landed while they waited
	Missed   int64 `json:"missed"` // callers that got no token
	Bought   int64 `json:"bought"` // orders that the provider accepted or may have accepted
	Solved   int64 `json:"solved"` // tokens that landed
}

// TargetHour contains the counts of the last 60 minutes, including the current minute.
type TargetHour struct {
	Counts
	HitRate float64 `json:"hit_rate"` // hits per request with an outcome; 0 without such requests
	// Minutes has the minutes with a count, the oldest first. In JSON only TargetDetail has the minutes, because with busy
	// targets they would be nine tenths of the document.
	Minutes []TargetPeriod `json:"-"`
}

// TargetLastDay contains the counts of the current UTC hour and of the 23 hours before it.
type TargetLastDay struct {
	Counts
	HitRate float64 `json:"hit_rate"` // hits per request with an outcome; 0 without such requests
	// Hours contains the hours with a count, the oldest first; never null.
	Hours []TargetPeriod `json:"hours"`
}

// TargetDetail is the response of GET /pool/{target}.
type TargetDetail struct {
	Target
	Hour struct {
		TargetHour
		Minutes []TargetPeriod `json:"minutes"` // the minutes with a count, the oldest first; never null
	} `json:"hour"`
	LastDay *TargetLastDay `json:"last_day"` // null = Redis could not be read
	// currency of the configuration file; absent = the file names none
	Currency targets.Currency `json:"currency,omitempty"`
}

// TargetPeriod contains the counts of one minute or one hour.
type TargetPeriod struct {
	At string `json:"at"` // start of the period; RFC 3339, UTC
	Counts
}

// TargetDay contains the counts of one UTC day.
type TargetDay struct {
	Date string `json:"date"` // 2006-01-02
	Counts
	Failed  int64  `json:"failed,omitzero"`
	Lost    int64  `json:"lost,omitzero"`
	Expired int64  `json:"expired,omitzero"`
	Spent   Amount `json:"spent"` // null = no price is known
}

// Counters contains the counts of an identity since it was first seen, over all replicas. At any time
//
//	bought = hits + waited - returned + expired + failed + lost + flushed + fresh + bought_in_flight
type Counters struct {
	Counts
	Expired  int64 `json:"expired"`  // landed tokens that expired unused
	Flushed  int64 `json:"flushed"`  // tokens that were flushed
	Failed   int64 `json:"failed"`   // bought orders that ended without a token
	Lost     int64 `json:"lost"`     // bought orders whose deadline passed before their outcome was known
	Returned int64 `json:"returned"` // tokens put back after their callers hung up
	Accepted int64 `json:"accepted"` // reports that a token was accepted
	Rejected int64 `json:"rejected"` // reports that a token was rejected
}

// ProviderType compares a provider with the others for one type of CAPTCHA. All replicas have the same
// figures, which follow the last orders and reports.
type ProviderType struct {
	Type  string  `json:"type"`
	Share float64 `json:"share"` // share of the ended orders of the type, weighted towards the last hour
	// Cost is the expected cost per accepted token: the price divided by solved and by accepted; null =
	// the price is unknown.
	Cost   *float64 `json:"cost"`
	Solved float64  `json:"solved"` // share of orders that brought a token
	// Accepted is the share of tokens that the sites accepted, by the callers' reports; null = there are
	// no reports.
	Accepted *float64 `json:"accepted"`
	LeadP50  float64  `json:"lead_p50_s"` // seconds; 0 = unknown
	LeadP90  float64  `json:"lead_p90_s"`
}

// Amount is an amount of money in the currency of the file's prices.
type Amount = history.Money

// lacksPrice reports whether some provider of the file has no price for one of the types.
func lacksPrice(set *targets.Set, types ...captcha.Type) bool {
	return slices.ContainsFunc(set.Providers, func(p targets.Provider) bool {
		return slices.ContainsFunc(types, func(t captcha.Type) bool { return p.Price.For(t) < 0 })
	})
}

// spent returns what an identity spent, by its counters. Without a price in the file, it is unknown as soon as an
// order was solved or lost.
func spent(c *pool.Counters, priced bool) Amount {
	if c.Spent == 0 && !priced && c.Solved+c.Lost > 0 {
		return history.MoneyUnknown
	}
	return Amount(c.Spent)
}
