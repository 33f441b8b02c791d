package pool

import (
	"log/slog"

	"poold/internal/redisdb"
)

// client is the way to Redis, which all parts of a store share.
type client struct {
	keyspace

	db      *redisdb.DB
	scripts scripts
	log     *slog.Logger
}

// types are the Redis types of keys by the word after the prefix, for redisdb.DB.Explain.
var types = map[string]string{
	"pool": "list", "rate": "list", "last": "list", "leads": "list", "verdicts": "list",
	"orders": "zset", "leases": "zset", "spend": "zset", "tickets": "zset", "seen": "zset", "values": "zset",
	"untold": "zset", "warm": "zset", "places": "zset", "ended": "zset", "placed": "zset",
	"journal": "hash", "stats": "hash",
	"once": "string", "sold": "string", "bound": "string",
	"attempts": "hash", "standing": "hash", "guests": "zset", "folded": "zset", "retired": "hash",
}
