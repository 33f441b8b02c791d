package httpapi

import (
	"math"
	"net/http"
	"slices"
	"time"

	"poold/internal/refill/policy"
)

// Status is the document of /status.json. Fields may be added, never taken
// away or changed.
type Status struct {
	Version   string       `json:"version"`
	Ready     bool         `json:"ready"`      // as /readyz says
	StartedAt string       `json:"started_at"` // RFC 3339, UTC
	Alarms    []string     `json:"alarms"`     // what keeps it from its work now, and why; the first to look at
	Notices   []string     `json:"notices"`    // what to know about this way of running it, e.g. a simulated provider
	Config    ConfigStatus `json:"config"`
	Redis     RedisStatus  `json:"redis"`
	// Budget is the one over all targets, in the last 24 h; null = there is none.
	Budget      *Window          `json:"budget"`
	DeadLetters int              `json:"dead_letters"` // callbacks at this replica that could not be stored yet
	Providers   []ProviderStatus `json:"providers"`    // in the order in which they are tried
	Targets     []TargetStatus   `json:"targets"`      // sorted by name
}

// Window is how much of a budget is used, in solves.
type Window struct {
	Used  int `json:"used"`
	Limit int `json:"limit"`
}

// ConfigStatus is about the file.
type ConfigStatus struct {
	LoadedAt string   `json:"loaded_at"` // of the Set in use; RFC 3339, UTC
	OK       bool     `json:"ok"`        // the last attempt to load it was good
	Problems []string `json:"problems"`  // of the last attempt: "pools.yaml:LINE: message"
	Warnings []string `json:"warnings"`  // what is unusual in the Set in use
}

// RedisStatus is about the store.
type RedisStatus struct {
	Mode string `json:"mode"` // embedded | single | sentinel | cluster
	OK   bool   `json:"ok"`   // false: it cannot be used; the figures of the targets may be the last known ones
	// Reason says why it is not ok, or why it is so for a part of the targets alone;
	// "" = all is well.
	Reason string `json:"reason"`
}

// alarms says what keeps the daemon from its work; never nil.
func (r RedisStatus) alarms() []string {
	switch {
	case !r.OK:
		return []string{"The store cannot be used: " + r.Reason + ". The figures of the targets may be the last known ones."}
	case r.Reason != "":
		return []string{"A part of the store cannot be used: " + r.Reason + ". The figures of the targets in it are the last known ones."}
	}
	return []string{}
}

// ProviderStatus is about one provider, for all replicas.
type ProviderStatus struct {
	Name        string   `json:"name"`
	State       string   `json:"state"`  // ok | busy | paused
	Reason      string   `json:"reason"` // "" when ok
	InFlight    int      `json:"in_flight"`
	Concurrency int      `json:"concurrency"`
	Balance     *float64 `json:"balance"`   // null = never read
	Callbacks   bool     `json:"callbacks"` // the file has it call back
}

// TargetStatus is about one target, for all replicas. The counters run since
// the target's identity was first seen.
type TargetStatus struct {
	Name     string   `json:"name"`
	Type     string   `json:"type"`
	Owner    string   `json:"owner"`
	State    string   `json:"state"`  // ok | idle (wants nothing, nobody asks) | paused | starved | budget | refused
	Reason   string   `json:"reason"` // of a state; with ok and idle also why nothing could be bought now
	Marks    []string `json:"marks"`  // what a person should look at: markFailing, markRejected
	Depth    int      `json:"depth"`
	Want     int      `json:"want"`
	Refill   string   `json:"refill"`   // fixed | adaptive
	Forecast float64  `json:"forecast"` // adaptive: requests expected within one lead time
	Risk     float64  `json:"risk"`     // adaptive: that one finds nothing with `want` tokens ahead of it
	Rail     string   `json:"rail"`     // what keeps `want` or the orders below what is asked: depth, credit, probe, idle, paused; "" = nothing
	Credit   float64  `json:"credit"`   // adaptive: tokens that may still expire unused before only `min` is kept; below 0 that is so. 0 where fixed
	Warm     int      `json:"warm"`     // tokens that warm windows want ready; 0 = none runs or is about to
	// HitRateNeeds is what max_waste it takes to reach hit_rate, by the demand since the
	// shadow's `since`; null where that is reached, for fixed, and where shadow is null.
	HitRateNeeds *policy.Need `json:"hit_rate_needs"`
	// Shadow is null where too few have asked to tell.
	Shadow          *Shadow  `json:"shadow"`
	Fresh           int      `json:"fresh"`
	InFlight        int      `json:"in_flight"`        // orders under way, also those whose fate is unknown
	BoughtInFlight  int      `json:"bought_in_flight"` // those of them that bought counts
	Unknown         int      `json:"unknown"`          // those of them whose fate is unknown
	Waiting         int      `json:"waiting"`
	NextExpiry      *float64 `json:"next_expiry_s"` // until the next fresh token meets its margin; null = none is fresh
	Requests        int64    `json:"requests"`
	Hits            int64    `json:"hits"`
	Waited          int64    `json:"waited"`
	Misses          int64    `json:"misses"`
	Bought          int64    `json:"bought"` // orders that a provider accepted, or of which nobody knows
	Solved          int64    `json:"solved"`
	Expired         int64    `json:"expired"`
	Discarded       int64    `json:"discarded"` // thrown away by DELETE /pool/{target}/tokens
	Failed          int64    `json:"failed"`
	Lost            int64    `json:"lost"`              // orders of which nobody knows how they ended
	Junk            int64    `json:"junk"`              // foreign values found among the tokens and orders in Redis, and set aside
	Returned        int64    `json:"returned"`          // hand-outs that came back, because the caller had hung up
	Accepted        int64    `json:"accepted"`          // reports that a token was
	Rejected        int64    `json:"rejected"`          // reports that one was not
	HitRate         float64  `json:"hit_rate"`          // hits by requests that have an outcome; 0 without any
	BoughtPerServed float64  `json:"bought_per_served"` // bought by handed out; 0 where none was
	LeadTime        LeadTime `json:"lead_time_s"`
	Spent           float64  `json:"spent"` // in the currency of the file's prices
	// Windows were made by POST, run or are to come; never null.
	Windows []WarmWindow `json:"windows"`
	// Budget is null where the target has none of its own.
	Budget *TargetBudget `json:"budget"`
}

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

// TargetBudget is how much of a target's budgets is used; null = it has no such
// one.
type TargetBudget struct {
	Hour *Window `json:"hour"` // in the last 60 min
	Day  *Window `json:"day"`  // in the last 24 h
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

// LeadTime is how long a solve takes, in seconds, over the last ones; 0 before
// the first.
type LeadTime struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
}

// handleStatus is GET /status: a page for browsers, JSON for everybody else.
func (s *Server) handleStatus(w http.ResponseWriter, r *http.Request, c *call) error {
	w.Header()["Vary"] = varyAccept
	if prefers(r.Header["Accept"], "text/html") {
		return s.writePage(w, s.snapshot(r.Context()).status.forCaller(c.caller))
	}
	return s.handleStatusJSON(w, r, c)
}

// handleStatusJSON is GET /status.json.
func (s *Server) handleStatusJSON(w http.ResponseWriter, r *http.Request, c *call) error {
	return respondJSON(w, s.snapshot(r.Context()).status.forCaller(c.caller))
}

// handleTarget is GET /pool/{target}: its part of the status.
func (s *Server) handleTarget(w http.ResponseWriter, r *http.Request, c *call) error {
	status, ok := s.snapshot(r.Context()).status.target(c.target.Name)
	if !ok { // a reload removed it between two lines of ours
		return fault(codeUnknownTarget, "the configuration file has no target of this name")
	}
	return respondJSON(w, status)
}

// stamp formats a moment; the zero time is "", never the year 1.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(timestamp)
}

// thousandths rounds to three places.
func thousandths(x float64) float64 { return math.Round(x*1000) / 1000 }

// ratio is a by b to four places, 0 where b is.
func ratio(a, b int64) float64 {
	if b == 0 {
		return 0
	}
	return tenThousandths(float64(a) / float64(b))
}

// tenThousandths rounds to four places.
func tenThousandths(x float64) float64 { return math.Round(x*1e4) / 1e4 }

const (
	billionths = 1e9 // of the currency, in which the stock counts what was spent
	spentShown = 1e6 // parts of it that /status shows
)

// money turns billionths of the currency into the currency, to six places.
func money(n int64) float64 {
	return math.Round(float64(n)/(billionths/spentShown)) / spentShown
}

// percentile returns the p-th percentile of a list by nearest rank, in seconds
// to the millisecond; 0 of an empty one. The list is left as it is.
func percentile(list []time.Duration, p int) float64 {
	if len(list) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(list))
	rank := (len(sorted)*p + 99) / 100 // rounded up, from 1
	return sorted[rank-1].Round(time.Millisecond).Seconds()
}
