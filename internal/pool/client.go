package pool

import (
	"context"
	"log/slog"

	"poold/internal/redisdb"
)

// client is the connection to Redis that all parts of a store share.
type client struct {
	keyspace

	db      *redisdb.DB
	scripts redisdb.Scripts
	log     *slog.Logger
}

type args = redisdb.Args

// script returns the script of a file in lua/.
func (c *client) script(name string) *redisdb.Script { return c.scripts.Get(name) }

// call executes a script off the hot path; see redisdb.DB.Call.
func (c *client) call(ctx context.Context, name string, keys any, a args, tail ...any) (*redisdb.Reply, error) {
	return c.db.Call(ctx, c.script(name), keys, a, tail...)
}

// callNumber executes a script that replies with one number.
func (c *client) callNumber(ctx context.Context, name string, keys any, a args, tail ...any) (int64, error) {
	return c.db.CallNumber(ctx, c.script(name), keys, a, tail...)
}

// pipelined sends many calls of one script in one exchange; see redisdb.DB.Pipelined.
func (c *client) pipelined(ctx context.Context, name string, fill func(call redisdb.Add)) {
	c.db.Pipelined(ctx, c.script(name), fill)
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
