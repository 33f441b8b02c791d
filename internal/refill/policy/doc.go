// Package policy computes how many tokens to buy, and when to decide again. It has no clock, no I/O and no goroutine,
// so `poold simulate` runs the daemon's code in virtual time.
//
//	Params      the settings of a target (params.go), with the table of calibrated constants
//	Learned     the learned state of a target (learned.go): its last requests (memory.go), credit and permits
//	Decide      the decision, given the counts (decide.go)
//	outlook     the value of one more token (outlook.go), from forecasts (forecast.go)
//	Simulation  a demand (demand.go) that is replayed against the policy (simulation.go, replay.go)
//
// Of the tests, read decide_test.go first.
//
// With `refill: fixed` the depth is wanted: an order is placed while the fresh tokens that outlive the lead time, plus
// the orders, less the pending callers, are fewer than the depth.
//
// With `refill: adaptive` one more token is wanted while it pays: it is probably needed before a later order could
// arrive (risk), it is probably used before it expires, and both probabilities justify its price (outlook.pays).
//
// A forecast is the distribution of the number of requests in the next x seconds. It has two sources:
//
//   - The rate of the last minute or two.
//   - The requests that followed in similar past moments: after a request with about as many requests before it, and
//     after the same silence. Each such moment has half the weight of the rate, so that a new target starts carefully.
//
// Bursts, their ends, periods and lone requests need no special rules: they show in the requests that followed.
//
// The limits hold whatever the forecast says: depth, credit, probes while solves fail, and idle_after.
package policy
