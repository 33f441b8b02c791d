// Package pgclaims is a claim store in PostgreSQL. Claims let equal requests with `dedup: identity`
// share one solve over all replicas; the package also counts their savings. Package redisclaims is the
// other claim store. Both pass the tests of package claimtest.
//
// A claim is a row of the table captcha_cache, whose primary key is the key of the requests. Each
// step reads and changes the row in one short transaction. This transaction excludes other
// transactions of the same key (postgres.DB.Alone). It compares times with the server's clock, so
// replicas with skewed clocks agree. A running solve and a waiting request use no connection.
//
// A solve without an outcome is in flight until ends_at. Its holder renews leased_until. After that
// time another replica takes over. Each holder has a later fence than all earlier holders, and only
// the latest holder can end the solve. After the end of the solve, the solution is shared until
// ends_at. While a newer solve is in flight, the row keeps the failure of the old solve for callers
// of the old solve. Claims.Run deletes ended claims.
//
// Installations with different prefixes may share a database: each row has the prefix in a column,
// and its key or source begins with the prefix. One installation is an exception: its prefix is the
// default of the column, and its keys and sources have no prefix. Replicas of versions before
// prefixes write such rows and share them with this installation. The lock of a key and the
// notifications have no prefix. They can only delay or wake another installation.
//
// A notification on End and on Release wakes the replicas. A lost notification only causes a delay,
// because a waiting replica calls Enter each second.
package pgclaims
