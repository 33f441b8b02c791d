package simulated

import "time"

const (
	tokenBytes  = 600     // length of a token
	manyThreads = 100_000 // number of threads that threadsinfo reports without a limit
)

// Options configures a Service.
type Options struct {
	Key string // the valid key; "" = any non-empty key is valid

	// The lead time has a lognormal distribution around Median, from a third of it to twenty thirds, as in `poold
	// simulate`. A Sigma of 0 makes every lead time equal to the median.
	Median time.Duration
	Sigma  float64

	Balance   float64 // balance of every account, which no sale changes
	Threads   int     // maximum number of tasks in flight; 0 = no limit, for which threadsinfo reports 100,000
	FailShare float64 // share of unsolvable tasks, 0 to 1

	// Seed is the seed of all random choices: lead times, failures, tokens and ids. If Seed is 0,
	// each Service draws a random seed, so that it does not know task ids from an earlier process.
	Seed uint64

	UserAgent string        // user agent in a solution whose order has none; "" = none
	Keep      time.Duration // how long a task is known after its due time
}
