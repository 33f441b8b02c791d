// Package purchase owns WHAT was paid for: the life of one order, from a place
// at a provider to a token in the stock.
//
// It stands between refill, which decides when to buy, and provider and pool,
// which know how to buy and where tokens wait. The desk is the one place where
// all targets of a replica meet, so it also shares the providers out among
// them: first come, first served.
//
// # The life of an order
//
//	Admit    a local slot at the first provider that may be asked now
//	Place    a place at the provider, counted in Redis over all replicas,
//	         then the order beside the stock: the depth sentence is judged
//	         there, in one script; a refusal gives the place back
//	Collect  submit -> store the task id -> first wait -> poll, poll, poll ->
//	         settle -> give the place back
//
// Each step in Redis is keyed by the order's id and idempotent, so that one
// whose answer was lost is sent again. The submit is not.
//
// # What an answer of the provider does to the order
//
//	solved                     settled: order out, token in, in one script
//	task fault, time-out,      removed, counted as failed         (ErrFailed)
//	  parameter fault at poll                        (the last: ErrRefused too)
//	parameter fault at submit  removed, nothing was bought        (ErrRefused)
//	capacity or account fault  removed, nothing was bought        (ErrBusy)
//	  at submit
//	capacity or account fault  asked again after its delay, until the time-out
//	  at poll
//	submit without an answer   kept: it may have been bought      (ErrLost)
//
// # Invariants
//
//   - An order stands in Redis before its submit leaves, and a submit is sent
//     once. A submit in flight is never cut, not even by a stop.
//   - The task id is stored before anything else happens with it.
//   - An order whose submit was lost keeps its place in the depth and in the
//     provider's concurrency until its time is over, over all replicas; only
//     the local slot is freed, because nobody waits for anything any more.
//   - A token's age counts from the start of the last poll that found it not
//     ready, else from just before the submit.
//   - Redis going away loses no paid task before the order's own deadline:
//     storing, settling and releasing are tried until then.
//   - Every Slot is freed: by Place when it refuses, by Collect at its end, or
//     by its holder.
//
// # What it does not do
//
// It does not decide how many to buy (refill), what an error code means
// (provider) or how long a token lives (pool). What a stop leaves behind stays
// in Redis until its time is over.
package purchase
