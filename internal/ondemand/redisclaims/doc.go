// Package redisclaims keeps claims in Redis. A claim is a solve that equal requests with `dedup:
// identity` share, over all replicas. The package also counts the savings. Package pgclaims is the
// other claim store. Both pass the tests of package claimtest.
//
// # Keys
//
// All keys are in one slot. Their prefix here is "captcha":
//
//	captcha:claim:{dedup}:KEY           hash    the last solve of a key, under way or ended; see below
//	captcha:claim:{dedup}:KEY:token     hash    the last token: solve, value, ends (Unix ms until which it is shared)
//	captcha:claim:{dedup}:KEY:failure   hash    the last failure, with the same fields
//	captcha:savings:{dedup}:2006-01-02  hash    source -> requests of that UTC day; for 7 days after the last one
//	captcha:counted:{dedup}:CALL        string  marks a call whose requests are counted
//
// The fields of a claim:
//
//	solve     name of the solve, which a new holder keeps
//	identity  identity whose stock the solve uses
//	fence     number of the last holder; it grows with each holder
//	lease     Unix ms after which another replica may take over
//	stops     Unix ms after which the solve is over in any case
//	asked     Unix ms of the last Enter that had to wait
//	call      name of the call of Enter that made the last holder
//	ended     hash of the end; absent while the solve is under way
//
// # Invariants
//
//   - A claim has one holder. claim_enter.lua makes the first caller the holder. Another caller
//     becomes the holder only after the lease has expired, and gets a higher fence. Calls of Hold and
//     End with a lower fence change nothing. A new holder continues the solve under the same name.
//   - Each call may be sent twice. A retry of Enter by the holder reports again that the replica holds
//     the claim. A retry of End reports again that the replica ended the solve. Requests are counted
//     once.
//   - A shared token is deleted when its sharing time ends. A stored time that is too far in the
//     future counts as past: it shows that Redis' clock was set back by more than 10 s.
//
// The scripts and Release publish the keys of ended and released solves on redisdb's channel. A lost
// message only causes a delay, because a waiting replica calls Enter each second.
package redisclaims
