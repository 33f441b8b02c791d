// Package redisdb is the access to Redis: it connects, probes the health of Redis, reviews its
// settings, and loads and runs scripts. It knows nothing of tokens, claims or the history, which pool,
// redisclaims and redisstore keep in Redis.
//
//	db.go       Options, Open, Run, Close; calls that go to each master
//	connect.go  addresses, and the clients of a single server, sentinels and a cluster
//	hook.go     the limit of each exchange, and its error
//	dial.go     connections that are not used again once one to the same server broke
//	script.go   loading scripts and running them, alone or many in one exchange
//	types.go    errors that name a key which holds another program's value
//	channel.go  the channel by which replicas wake each other
//	health.go   the probe: a script that writes a key, twice a second
//	review.go   dangerous settings and missing rights, looked for every minute
//	trial.go    the same once, and each command, for poold check --live
//	reason.go   why a call failed, in plain words
//
// # Two clients
//
// Hot serves takes and returns, Slow everything else, so that refilling cannot starve
// hand-outs. Neither connects before its first call.
//
// # Keys
//
//	PREFIX:probe:{0}  string  written by the probe; in a cluster one at each master
//	PREFIX:wake       the channel. A message is an identity or the key of a claim, or
//	                  "identity order how" after a callback; an empty one has no meaning
//
// # Errors
//
// Every exchange of the slow client ends within CallTimeout. If it fails, its error is an ErrDown,
// whose Reason names neither a key nor a password. Callers of the hot client have limits of
// their own, and call Down.
//
// # Scripts
//
// Each script begins with lua/general.lua. Scripts use only commands that Redis 6.2, 7.0 and
// the embedded server share.
package redisdb
