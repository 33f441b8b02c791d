package status

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/targets"
)

// Counts contains the numbers of events in a period, over all replicas.
type Counts struct {
	// Requests is the sum of Hits, Waited and Misses, of the callers that hung up while they waited, and of the
	// requests of POST /solve that were refused. The total of an identity also has the callers that wait.
	Requests int64 `json:"requests"`
	Hits     int64 `json:"hits"`   // callers that got a token at once
	Waited   int64 `json:"waited"` // callers that got a token that landed while they waited
	Misses   int64 `json:"misses"` // callers that got no token
	Bought   int64 `json:"bought"` // orders that the provider accepted or may have accepted
	Solved   int64 `json:"solved"` // tokens that landed
}

// TargetHour contains the counts of the last 60 minutes, including the current minute.
type TargetHour struct {
	Counts
	HitRate float64 `json:"hit_rate"` // hits per request with an outcome; 0 without such requests
	// Minutes contains the minutes with a count, the oldest first; nil = omitted (Snapshot.WithoutMinutes).
	Minutes []TargetPeriod `json:"minutes,omitzero"`
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
	LastDay  *TargetLastDay   `json:"last_day"`           // null = Redis could not be read
	Currency targets.Currency `json:"currency,omitempty"` // currency of the configuration file; absent = the file names none
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
	Failed  int64 `json:"failed"`
	Lost    int64 `json:"lost"`
	Expired int64 `json:"expired"`
	Spent   Money `json:"spent"` // null = no price is known
}

// Counters contains the counts of an identity since it was first seen, over all replicas. At any time
//
//	bought = hits + waited - returned + expired + failed + lost + discarded + fresh + bought_in_flight
type Counters struct {
	Counts
	Expired   int64 `json:"expired"`   // landed tokens that expired unused
	Discarded int64 `json:"discarded"` // tokens that were flushed
	Failed    int64 `json:"failed"`    // bought orders that ended without a token
	Lost      int64 `json:"lost"`      // bought orders whose deadline passed before their outcome was known
	Returned  int64 `json:"returned"`  // tokens put back after their callers hung up
	Accepted  int64 `json:"accepted"`  // reports that a token was accepted
	Rejected  int64 `json:"rejected"`  // reports that a token was rejected
}

// countersOf converts counters, given the number of callers that wait now.
func countersOf(f *pool.Counters, waiting int) Counters {
	c := Counters{
		Counts: countsOf(f), Expired: f.Expired, Discarded: f.Discarded, Failed: f.Failed, Lost: f.Lost, Returned: f.Returned,
		Accepted: f.Accepted, Rejected: f.Rejected,
	}
	c.Requests += int64(waiting)
	return c
}

func countsOf(f *pool.Counters) Counts {
	return Counts{
		Requests: f.Hits + f.Waited + f.Missed + f.Left + f.Declined,
		Hits:     f.Hits, Waited: f.Waited, Misses: f.Missed, Bought: f.Bought, Solved: f.Solved,
	}
}

func (c *Counts) add(d Counts) {
	c.Requests += d.Requests
	c.Hits += d.Hits
	c.Waited += d.Waited
	c.Misses += d.Misses
	c.Bought += d.Bought
	c.Solved += d.Solved
}

// targetDays converts the days of a stock, and returns today first.
func targetDays(s *pool.Stock) []TargetDay {
	list := []TargetDay{}
	for _, d := range slices.Backward(s.Days) {
		list = append(list, TargetDay{
			Date: d.At.Format(time.DateOnly), Counts: countsOf(&d.Counters), Failed: d.Failed, Lost: d.Lost, Expired: d.Expired, Spent: money(d.Spent),
		})
	}
	return list
}

// targetHour converts the minutes of a stock, and sums them up.
func targetHour(s *pool.Stock) (hour TargetHour) {
	hour.Counts, hour.HitRate, hour.Minutes = sumUp(s.Minutes)
	return hour
}

// LastDay returns an identity's counts by hour, over all replicas; nil = Redis could not be read.
func (c *Collector) LastDay(ctx context.Context, id captcha.ID) *TargetLastDay {
	ctx, cancel := context.WithTimeout(ctx, lastDayLimit)
	defer cancel()
	periods, err := c.Stock.Hours(ctx, id)
	if err != nil {
		c.Log.DebugContext(ctx, "hours not read for the status", slog.Any("err", err))
		return nil
	}
	var day TargetLastDay
	day.Counts, day.HitRate, day.Hours = sumUp(periods)
	return &day
}

// sumUp converts periods, and returns the sums of their counts and the share of hits.
func sumUp(periods []pool.Period) (sum Counts, hitRate float64, list []TargetPeriod) {
	list = make([]TargetPeriod, len(periods))
	for i, p := range periods {
		counts := countsOf(&p.Counters)
		list[i] = TargetPeriod{At: stamp(p.At), Counts: counts}
		sum.add(counts)
	}
	return sum, ratio(sum.Hits, sum.Hits+sum.Waited+sum.Misses), list
}
