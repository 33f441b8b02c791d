// Package pgclaims keeps claims in PostgreSQL: the solves that equal requests with
// `dedup: identity` share, over all replicas, and their savings. It is one of two stores;
// redisclaims is the other. Both pass the same tests (claimtest).
//
// A claim is a row of the table captcha_cache, by the key of the requests. Each step reads and changes
// the row in one short transaction, which excludes other transactions of the key (postgres.DB.Alone).
// It compares times with the server's clock, so replicas with skewed clocks agree. No connection is
// used while a solve runs or a request waits for one.
//
// A solve without an outcome is under way until ends_at. Its holder renews leased_until; after that
// time another replica takes over. Each holder has a later fence than all earlier holders, and only the
// latest holder can end the solve. After the end, ends_at is the time until which the solution is
// shared. A failure is kept beside a newer solve, for the callers of the old solve. Run deletes ended
// claims.
//
// Installations with different prefixes may share a database: each row has the prefix in a column, and
// its key or source begins with the prefix. One installation is an exception: its prefix is the default
// of the column, and its keys and sources have no prefix, because replicas of versions before prefixes
// write such rows and share them. The lock of a key and the notifications have no prefix: they can only
// delay or wake another installation.
//
// A notification on End and on Release wakes the replicas. One may be lost: waiting
// callers ask again with Enter each second.
package pgclaims
