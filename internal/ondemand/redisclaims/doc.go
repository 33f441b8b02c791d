// Package redisclaims keeps claims in Redis: the solves that equal requests with `dedup: identity`
// share, over all replicas, and their savings. It is one of two stores; pgclaims is the other.
// Both pass the same tests (claimtest).
//
// # Keys
//
// All of them are in one slot. With the prefix "captcha":
//
//	captcha:claim:{dedup}:KEY           hash    the solve of a key that is under way, or ended last; see below
//	captcha:claim:{dedup}:KEY:token     hash    solve, ends (Unix ms until which it is shared), value: of the last token
//	captcha:claim:{dedup}:KEY:failure   hash    the same of the last failure
//	captcha:savings:{dedup}:2006-01-02  hash    source -> requests of that UTC day; for 7 days after the last one
//	captcha:counted:{dedup}:CALL        string  marks a call whose requests are counted
//
// The fields of a claim:
//
//	solve     names the solve; a new holder keeps the name
//	identity  names the stock that the solve takes from
//	fence     number of the last holder; grows with each
//	lease     Unix ms after which another replica may take over
//	stops     Unix ms after which the solve is over, whatever its holder does
//	asked     Unix ms of the last Enter that has to wait
//	call      the Enter that made the last holder
//	ended     hash of the end; absent while the solve is under way
//
// # Invariants
//
//   - A claim has one holder. claim_enter.lua gives it to the first caller, and to another one
//     only after the lease, with a later fence. Hold and End with an older fence change
//     nothing. The solve keeps its name, so that a new holder continues it.
//   - Each call may be sent twice. A repeated Enter returns that this replica holds the claim, a
//     repeated End that it ended the solve, and requests are counted once.
//   - A shared token is deleted when the time of sharing ends. A stored time that is further away
//     than its longest span counts as over: Redis' clock was set back by more than 10 s.
//
// The keys of solves that ended or were released are published on redisdb's channel. A message may
// be lost: a waiting replica enters again each second.
package redisclaims
