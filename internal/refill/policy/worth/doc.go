// Package worth estimates what a token costs at each provider, and chooses the provider of an order.
// The package has no clock, no I/O and no goroutine.
//
//	Share      the share of successes in a series of outcomes (share.go)
//	Leads      the distribution of lead times (leads.go)
//	Estimate   the estimates of one provider for one type: share solved, share accepted, lead
//	           times (estimate.go)
//	Choose     the provider of an order (choose.go)
//	Explorer   which orders try another provider (explore.go)
//
// # What an order costs
//
// The expected cost per accepted token is
//
//	price / (share solved x share accepted) + lateness
//
// A failed order counts like a bought one, although most services do not charge for it: it takes a
// thread and a lead time. The lateness is the mean time by which the token comes later than the target
// can afford, relative to the mean time of the fastest provider, times `max_waste`, times the lowest
// cost of a token. So a caller that waits for the time of one whole solve costs `max_waste` tokens, as
// in package policy.
//
// # Changes
//
// A share is an exponentially weighted mean, in which old outcomes count less and less. The mean
// follows a large change too slowly. So a share also has two sequential tests (CUSUM): one for the
// hypothesis that the successes have halved, and one that the failures have halved. If a test decides
// for the change, the share keeps only the outcomes since the probable time of the change.
//
// # Exploration
//
// Choose compares the providers by the lower confidence bounds of their shares, so a provider must
// prove that it is better. The Explorer gives every provider that could be better a bounded share of
// the orders for this proof.
package worth
