// Package pgclaims keeps claims in PostgreSQL: the solves that equal requests with
// `dedup: identity` share, over all replicas, and their savings. It is one of two stores;
// redisclaims is the other. Both pass the same tests (claimtest).
//
// A claim is a row of the table captcha_cache, by the key of the requests. Each step
// reads the row and changes it in one short transaction that is alone for its key
// (postgres.DB.Alone), judged by the server's clock, so replicas with skewed clocks
// agree. No connection is held while a solve runs or a request waits for one.
//
// A solve is under way until ends_at, while it has no outcome; its holder renews
// leased_until, and another replica takes over once that is past. Each holder has a later
// fence than all before it, and only the latest one can end the solve. From then on ends_at says
// how long the solution is shared. A failure is kept beside a newer solve, for the
// callers that wait for the old one. Run deletes ended claims.
//
// Installations with different prefixes may share a database: each row carries the
// prefix, and the keys and sources of all but one installation begin with it. The exception is
// the installation whose prefix is the default of the columns. Its replicas of the version
// before prefixes write rows without one, so both versions share them. The lock of a key and
// the notifications have no prefix: installations only delay and wake each other by them.
//
// A notification on End and on Release wakes the replicas. One may be lost: waiting
// callers ask again with Enter each second.
package pgclaims
