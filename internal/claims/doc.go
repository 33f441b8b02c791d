// Package claims decides which replica solves for all callers that share a solve (`dedup: identity`).
//
// A claim is one value with a version in a Store: Redis, or the table captcha_cache of a PostgreSQL database.
// Each step loads the value, decides on the store's clock, and swaps the value if its version is still the same. A
// step whose swap comes too late begins again. No step holds a lock or a connection between its calls.
//
// # Rules
//
//   - A claim has one holder. The first replica that enters becomes the holder. When the holder's lease has expired,
//     another replica takes over, and continues the solve under the same name.
//   - The fence of a holder is the version that its swap wrote. A version is at least the time in ms, so it exceeds
//     all earlier ones, even after the value expired. Hold and End with an earlier fence change nothing.
//   - Each step may be repeated, because a reply may be lost: the same call of Enter finds itself as the holder, and
//     the same End finds its end.
//   - A time that is too far in the future counts as past, because the store's clock was set back by more than 10 s.
//   - A value expires when its solve and its end are too old for any caller.
//
// A replica that waits calls Enter each second.
//
// # Keys
//
//	{captcha}:claim:KEY  hash     version, value (JSON); the tag is redis.prefix
//	captcha_cache        table    a row for each key, which begins with redis.prefix; sql/0001_claims.sql
package claims
