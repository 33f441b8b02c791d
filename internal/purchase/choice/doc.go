// Package choice chooses the provider of an order by its price and by the results of its former orders.
//
// The scripts that end an order or count a report move the sums of the provider and the type in Redis (pool.Sums). Each
// replica reads the sums once a second, so all replicas make the same choice within a second, even after a restart.
// While Redis is away, replicas use the last sums that they read. With only one provider, no sums are written or read.
//
// The expected cost per accepted token is
//
//	price / (share solved x share accepted)
//
// A failed order counts like a bought one, although most services do not charge for it: it takes a permit and a lead
// time. The policy best compares lower confidence bounds of the shares, so a provider must prove that it is better. A
// provider gets the orders for this proof by exploration (3 % of the orders for the stock), or because its sums have
// faded.
package choice
