// Package pgclaims is a claim store in PostgreSQL. Claims let equal requests with `dedup: identity`
// share one solve over all replicas; the package also counts their savings. Package redisclaims is the
// other claim store. Both pass the tests of package claimtest.
//
// A claim is a row of the table captcha_cache. The key that equal requests share is the primary key.
// Each step reads and changes the row in one short transaction. While this transaction runs, no other
// transaction of the same key runs (postgres.DB.Alone). Each transaction compares times with the
// server's clock, so replicas with skewed clocks agree. A running solve and a waiting request use
// no connection.
//
// A solve without an outcome is in flight until ends_at. Its holder renews leased_until. If the
// holder stops renewing leased_until, another replica takes over after that time. Each holder has a
// higher fence than all earlier holders, and only the latest holder can end the solve. After the
// end of the solve, the solution is shared until ends_at. While a newer solve is in flight, the row
// keeps the failure of the old solve, so that callers of the old solve can read it. Claims.Run
// deletes ended claims.
//
// Installations with different prefixes may share a database. Each row has the prefix in a column, and
// its key or source begins with the prefix. The lock of a key and the notifications have no prefix. A
// lock or a notification can therefore delay or wake another installation, but has no other effect
// on it.
//
// End and Release send a notification that wakes the replicas. A lost notification only causes a
// delay, because a waiting replica calls Enter each second.
package pgclaims
