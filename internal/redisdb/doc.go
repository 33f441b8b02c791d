// Package redisdb gives access to Redis. The package connects, probes the health of Redis, reviews
// the settings of Redis, and loads and runs scripts. Packages redisclaims, redisstore and events run theirs
// with it; package pool has its own scripts.
//
//	db.go       Options, Open, Run, Close; calls that go to each master
//	connect.go  addresses, and the clients of a single server, sentinels and a cluster
//	hook.go     the time limit of each exchange, and the conversion of errors to ErrDown
//	script.go   loading scripts
//	call.go     running scripts, one or many in an exchange
//	channel.go  the channel by which replicas wake each other
//	health.go   the probe: a script that writes a key, twice a second
//	review.go   the check for dangerous settings, every minute
//	trial.go    a single check of health and settings, for poold check --live
//	reason.go   why a call failed, in plain words
//
// # Three clients
//
// The client Hot is for takes and beats of package pool, and the client Slow for everything else, so that
// orders, the history and the claims cannot delay hand-outs. The probes have a client of their own: under
// load, a probe might wait for a connection of the others, and Redis would count as down. A client connects
// at its first call.
//
// # Keys
//
//	PREFIX:probe:{0}  string  written by the probe; in a cluster, there is one such key at each master
//	PREFIX:wake       the channel. A message is the key of a claim
//
// # Errors
//
// Every exchange of the slow client ends within CallTimeout. If an exchange fails, the error is an
// ErrDown, whose Reason contains neither a key nor a password. Code that uses the hot client sets its
// own time limits, and calls Down to convert errors.
//
// # Scripts
//
// Each script begins with lua/general.lua. Scripts use only commands that Redis 6.2, Redis 7.0 and
// the embedded server have in common.
package redisdb
