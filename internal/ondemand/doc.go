// Package ondemand sees to one solve, now: what POST /solve asks for.
//
// It stands between httpapi, which asks, and pool and purchase, which do the work: each
// solve is an order like any other, with its journal, lease, adoption and budgets, and
// each token comes out of the stock by a take.
//
// # Guests
//
// A guest is an identity that is asked for and that no target has. Its stock has depth
// 0: the depth sentence then lets as many orders be placed as callers hold tickets, over
// all replicas. So a caller takes with a ticket, and guest.go places for those who wait
// at this replica, as long as they do: no more orders than calls. A refusal by the
// depth sentence means that there are orders enough. A caller that gives up leaves its
// order; the token that lands serves the next one.
//
// A failed order answers the caller that lacks it and has waited longest, at the replica
// that ran it if one waits there: the script that ends the order gives up that caller's
// ticket, and its take ends with a *pool.FailedError. So an order that failed is missing
// to nobody. What the provider finds wrong with the parameters answers all callers here,
// and who asks within 30 s (refusals.go).
//
// An identity that has a target is left to the target's worker: it sees the ticket.
//
// Nothing is kept of a guest longer than its last token and order live: here it is in
// memory while callers wait or an order is under way, and in Redis it is retired by
// pool.Guests, which Run calls.
//
// # Claims
//
// Requests that want to share a solve (dedup: identity) claim its key (share.go). One
// replica holds the claim and takes a token like any caller, under an Idempotency-Key
// that is named by the solve; hold.go is its part. The others ask each second, or when
// they are woken, how the solve is. The solve belongs to the claim and not to who asked
// first: it goes on while anybody waits at any replica. A holder that is gone is replaced
// when its lease is over, and since the key of the take is the same, the new one gets the
// token of the order that the old one placed, also where the old one had taken it.
//
// One caller of a solve gets the token as bought and all others as shared, over all
// holders. A holder that ended the claim with its own token knows that it is the first.
// Others ask Tokens.First, which Redis answers also if the claims do not answer. In that case
// the holder serves all callers that wait at its replica from memory.
//
// Claims are kept in Redis (package redisclaims) or in PostgreSQL (package pgclaims).
//
// # What it does not do
//
// It knows no provider's protocol, no Redis key and no HTTP. It decides nothing about
// depth: the stock's script does.
package ondemand
