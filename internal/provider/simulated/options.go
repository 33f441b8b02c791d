package simulated

import "time"

// The defaults of Options.
const (
	DefaultMedian = 18 * time.Second
	DefaultSigma  = 0.45
	DefaultMin    = 6 * time.Second
	DefaultMax    = 120 * time.Second
)

const (
	tokenBytes  = 600     // length of a token
	manyThreads = 100_000 // number of threads that threadsinfo reports if there is no limit
)

// Options configures a Service. The zero value describes a service that accepts any key, has no limit
// of threads, never fails, and solves a task in 6 to 120 s.
type Options struct {
	Key string // the valid key; "" = any non-empty key is valid

	// The lead time has a lognormal distribution around Median, limited to the range from Min to Max.
	// If all four fields are zero, the defaults apply. If any field is set, no default applies: a
	// Sigma of 0 makes every lead time equal to the median, and a Max of 0 means no maximum.
	Median, Min, Max time.Duration
	Sigma            float64

	Balance   float64 // balance of every account, which no sale changes; 0 = 600
	Threads   int     // maximum number of tasks in flight; 0 = no limit, for which threadsinfo reports 100,000
	FailShare float64 // share of unsolvable tasks, 0 to 1

	// Seed is the seed of all random choices: lead times, failures, tokens and ids. If Seed is 0,
	// each Service draws a random seed, so that it does not know task ids from an earlier process.
	Seed uint64

	UserAgent string        // user agent in a solution whose order has none; "" = none
	Keep      time.Duration // how long a task is known after its due time; 0 = 5 min
}

func (o Options) withDefaults() Options {
	if o.Median == 0 && o.Sigma == 0 && o.Min == 0 && o.Max == 0 {
		o.Median, o.Sigma, o.Min, o.Max = DefaultMedian, DefaultSigma, DefaultMin, DefaultMax
	}
	if o.Balance == 0 {
		o.Balance = defaultBalance
	}
	if o.Keep == 0 {
		o.Keep = 5 * time.Minute
	}
	return o
}

// userAgent returns the user agent for the solution of a task, or "" if Options has none.
func (o *Options) userAgent(t Task) string {
	if o.UserAgent != "" && t.Identity.UserAgent != "" {
		return t.Identity.UserAgent
	}
	return o.UserAgent
}
