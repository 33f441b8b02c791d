package status

import (
	"context"
	"log/slog"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/targets"
)

// Counts contains the numbers of events in a period, over all replicas.
type Counts struct {
	Requests int64 `json:"requests"`
	Hits     int64 `json:"hits"`
	Waited   int64 `json:"waited"`
	Misses   int64 `json:"misses"`
	Bought   int64 `json:"bought"`
	Solved   int64 `json:"solved"`
}

// TargetHour contains the counts of the last 60 minutes, including the current minute. An event
// counts in the minute in which the stock is read next.
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
	Fresh *int `json:"fresh"` // lowest number of fresh tokens when events were counted; null = unknown
	Want  *int `json:"want"`  // number of tokens that was wanted last; null = unknown
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

// countsOf converts figures to the counts that the document contains for each minute and day.
func countsOf(f *pool.Figures) Counts {
	return Counts{Requests: f.Requests, Hits: f.Hits, Waited: f.Waited, Misses: f.Misses, Bought: f.Bought, Solved: f.Solved}
}

func (c *Counts) add(d Counts) {
	c.Requests += d.Requests
	c.Hits += d.Hits
	c.Waited += d.Waited
	c.Misses += d.Misses
	c.Bought += d.Bought
	c.Solved += d.Solved
}

// targetDays returns a stock's counts by day. The argument `at` is the time at which the stock was
// read.
func targetDays(s *pool.Stock, at time.Time) []TargetDay {
	list := []TargetDay{}
	for _, d := range s.Days(at) {
		f := &d.Figures
		list = append(list, TargetDay{
			Date: d.Date, Counts: countsOf(f), Failed: f.Failed, Lost: f.Lost, Expired: f.Expired, Spent: money(f.Spent),
		})
	}
	return list
}

// targetHour returns a stock's counts by minute, and their sums. The argument `at` is the time at
// which the stock was read.
func targetHour(s *pool.Stock, at time.Time) (hour TargetHour) {
	hour.Counts, hour.HitRate, hour.Minutes = sumUp(s.Hour(at))
	return hour
}

// LastDay returns an identity's counts by hour, over all replicas; nil = Redis could not be read.
func (c *Collector) LastDay(ctx context.Context, id captcha.ID) *TargetLastDay {
	ctx, cancel := context.WithTimeout(ctx, lastDayLimit)
	defer cancel()
	periods, err := c.Stock.LastDay(ctx, id, time.Now())
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
		counts := countsOf(&p.Figures)
		list[i] = TargetPeriod{At: stamp(p.At), Counts: counts, Fresh: known(p.Fresh), Want: known(p.Want)}
		sum.add(counts)
	}
	return sum, ratio(sum.Hits, sum.Hits+sum.Waited+sum.Misses), list
}

// known returns a pointer to a number, or nil if the number is below 0.
func known(n int) *int {
	if n < 0 {
		return nil
	}
	return &n
}
