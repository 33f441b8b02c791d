// Package outcomes learns from ended orders and from callers' reports how good each provider is, and
// chooses the providers of orders.
//
// Each replica appends the ends of its orders and the reports of its callers to streams in Redis, and
// reads the streams of all replicas once a second. All replicas pass the same entries in the same order
// to package worth, so they have the same estimates. A replica that starts reads what the streams still
// contain. If Redis does not answer, the estimates stay as they are, and new entries are dropped.
//
// With fewer than two providers there is nothing to choose, and the package writes and reads nothing.
//
// # Keys
//
// The prefix of these keys is "captcha"; {provider} is the name of a provider in pools.yaml.
//
//	captcha:outcomes:{provider}:TYPE  stream  the last streamLength entries; a week after the last
//	                                          entry the key expires
//
// An entry for an order has the fields solved (1 or 0) and ms (the lead time, if solved). An entry for a
// report has the fields accepted (1 or 0) and caller (the name of the caller's key).
package outcomes
