// Package redisdb gives access to Redis: the clients, its health, a review of its settings, and the
// reasons of outages in plain words. Other packages run their scripts with go-redis.
//
//	db.go       Options, Open, SetPassword, SetTLS, Run, Close
//	connect.go  addresses, TLS, and the options of the clients
//	hook.go     the time limit of each exchange, and the conversion of errors to ErrDown
//	health.go   the probe, twice a second: a script with a write
//	review.go   the check for dangerous settings, every minute, and Try for poold check --live
//	reason.go   the table of the reasons why a call failed
//
// # Three clients
//
// Package pool uses the client Fast for takes, cancels and beats. The client Slow is for everything else, so that
// orders, the history and the claims cannot delay hand-outs. The probes have a separate client: under load, a probe
// might have to wait for a free connection of the other clients, and Redis would count as down. A client connects at
// its first call.
//
// # Keys
//
//	{PREFIX}:data   string  random name of the data, which changes after a loss; written by the probe
//	{PREFIX}:lost   string  when a replica noticed the last loss, in ms; a day
//
// # Errors
//
// Every exchange ends within CallTimeout. If it fails, the error is an ErrDown, whose Reason contains
// neither a password nor more of a key than its kind.
//
// # Scripts
//
// Scripts use only commands that Redis 6.2, Redis 7.0 and the embedded server have in common.
package redisdb
