// Package policy computes how many tokens to buy, and when to look at the stock again. The package
// has no clock, no I/O and no goroutine, so `poold simulate` runs in virtual time what the daemon
// runs in real time.
//
//	Tracker    what the daemon keeps for a target: a State and its shadow
//	State      the knowledge about one target; Plan, then Decide (plan.go, decision.go)
//	knowledge  the learned part of a State: demand, table, lead times (knowledge.go)
//	replay     a State in virtual time, with drawn solves (replay.go); shadows and Simulation use it
//
// # How it decides
//
// A Plan is how many tokens are wanted; a Decision is how many to order, given the stock.
//
// With `refill: fixed`, want is the depth: an order is placed while the fresh tokens that outlive
// the lead time, plus the orders, less the pending callers, are fewer than the depth.
//
// With `refill: adaptive`, one more token is wanted while all of these hold (expectation.pays):
//
//   - It is likely needed before a later order could arrive (risk), likelier than 1 - `hit_rate`.
//   - It is likely used before it expires (use).
//   - The two are worth its price: `max_waste` is the number of expired tokens that one avoided
//     miss may cost.
//
// The first token is delayed while a later order would serve more requests (expectation.early).
//
// The probabilities come from three sources (forecast.go). The fallback knows the rate of the last
// minutes. The table knows what followed similar situations: silences of the same length after the
// same busyness (table.go). The gaps know when the next request is due, for any period (gaps.go).
// Table and gaps have the weight of their samples, and the estimate that they correct has the
// weight of one or two, so a new target starts carefully.
//
// If slots are few, a target learns how long its orders wait for one (slots.go), and orders ahead
// (expectation.enoughInTime). Tokens that expire within about a lead time count by the chance that
// they are used, orders by the chance that they land.
//
// Limits hold whatever the forecast says (limits.go): the depth, the credit that hits earn and
// expired tokens use up (credit.go), probes while solves fail, and idle_after.
//
// All time constants are for lead times of about 18 s. For other lead times they are scaled in
// proportion; a "scaled second" is scale seconds of the clock.
//
// # Shadows
//
// A target with demand has a shadow (shadow.go), which replays the same requests with the other way
// of refilling and with lead times drawn from the real ones. It orders nothing. The shadow of a
// fixed target is the adaptive policy. The shadow of an adaptive target is a ladder of fixed depths,
// and the adaptive policy at higher values of max_waste, which shows what its hit rate needs
// (need.go).
package policy
