// Package policy is the arithmetic of buying: what a target holds and what has
// happened go in, how many to order and when to look again comes out. It has no clock,
// no I/O and no goroutine, so that `poold simulate` runs in virtual time what the daemon
// runs in real time.
//
//	Tracker    what the daemon keeps for a target: a State and its shadow
//	State      what is known about one target; Plan, then Decide (plan.go, decision.go)
//	knowledge  the part of it that is learned: demand, table, lead times (knowledge.go)
//	Simulation a State with a drawn provider, on a trace or a demand model
//
// # How it decides
//
// A Plan says how many tokens are wanted, a Decision what to order, given the stock.
// With `refill: fixed` that is the depth sentence (short): an order is placed while the
// fresh tokens that outlive the lead time, and the orders, less the callers waiting, are
// fewer than the depth. With `refill: adaptive` one
// more token is wanted while it is likely to be needed before a later order could
// arrive (expectation.risk), likely to be used at all (expectation.use), and the two
// are worth its price: `max_waste` is how many tokens in vain one avoided wait may cost;
// above the share of hits that `hit_rate` names no more are bought. The first token is put
// off while a later order would serve more requests (expectation.early).
//
// How likely requests are (forecast.go) comes from three sources. The fallback knows
// the rate of the last minute or two. The table (table.go) knows what happened next,
// the last times that it had been silent for as long after being as busy: how long
// bursts are, how they end, whether anybody comes late enough for a token that is
// ordered now. The gaps (gaps.go) know when the next request is due, whatever the
// period. Table and gaps weigh as much as the samples that they have; the estimate that
// they correct weighs as much as one or two, so that a new target begins careful.
//
// Where slots are few, a target learns how long its orders wait for one (slots.go), and
// places early those orders that would otherwise wait too long
// (expectation.enoughInTime).
//
// Tokens that will die within about a lead time (leads.go) count by the chance that they
// are used, orders by the chance that they land, and the limits hold (limits.go): depth, the
// credit that hits earn and expiries use up (credit.go), which also bounds what is held
// and on order, probes while solves fail, idle_after. A Decision's Forecast, Risk and
// Limit say what it was led by.
//
// All times are for lead times about 18 s; a target whose lead times are far from that
// has them stretched in proportion.
//
// # Shadows
//
// Each target that is asked for tokens has a shadow (shadow.go): what the other way of
// refilling would have done with the same requests, at lead times drawn from the real
// ones. The shadow of a fixed target is the adaptive policy, whose table is kept as an
// adaptive target's would be and let go of after an hour without a request; that of an
// adaptive target is a ladder of fixed depths, and the adaptive policy at higher
// prices: these know what the target knows, and say what its hit rate needs (need.go).
// They order nothing. A shadow and a Simulation are made of the same replays (replay.go);
// what the other way of refilling gives in a Simulation is in other.go.
package policy
