// Package policy computes how many tokens to buy, and when to look at the stock again. The package
// has no clock, no I/O and no goroutine, so `poold simulate` can run the daemon's code in virtual
// time.
//
//	Tracker    the policy of one target in the daemon: a State, fed from the stock
//	State      the policy's data about one target; Plan, then Decide (plan.go, decision.go)
//	knowledge  the learned part of a State: demand, table, lead times (knowledge.go)
//	replay     a State in virtual time, with drawn solves (replay.go), for Simulation
//
// # How it decides
//
// A Plan says how many tokens are wanted. A Decision says how many to order, given the stock.
//
// With `refill: fixed` the depth is wanted: an order is placed while the fresh tokens that outlive
// the lead time, plus the orders, less the pending callers, are fewer than the depth.
//
// With `refill: adaptive` one more token is wanted while all of these conditions hold
// (expectation.pays):
//
//   - The probability that the token is needed before a later order could arrive (risk) exceeds 1 -
//     `hit_rate`.
//   - The token is likely to be used before it expires (use).
//   - These two probabilities justify the token's price: `max_waste` is the number of expired
//     tokens that one avoided miss may cost.
//
// The first token is delayed while a later order would serve more requests (expectation.isTooEarly).
//
// The probabilities come from three sources (forecast.go). The fallback uses the request rate of
// the last minutes. The table uses the requests that followed similar situations (table.go). A
// situation is the time since the last request (silence) and the number of requests before it
// (busyness). The gaps estimate when the next request of a periodic demand is due (gaps.go). The
// weight of the table and of the gaps grows with the number of their samples. The estimate without
// samples has the weight of one or two samples, so a new target starts carefully.
//
// A target learns how long its orders wait for a slot (slots.go). If slots are scarce, the target
// orders earlier (expectation.enoughInTime). A token that expires within about a lead time counts
// in proportion to the probability that it is used. An order counts in proportion to the
// probability that it lands.
//
// The following limits apply regardless of the forecast (limits.go): the depth, the credit (hits earn
// it and expired tokens use it up, credit.go), probes while solves fail, and idle_after.
//
// All time constants are calibrated for lead times of about 18 s. For other lead times they are
// scaled in proportion: a "scaled second" is knowledge.scale seconds.
package policy
