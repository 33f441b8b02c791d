package pool

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// client is the connection to Redis that all parts of a store share.
type client struct {
	keyspace
	route

	hot       redis.UniversalClient // takes and returns
	slow      redis.UniversalClient // everything else, so that refilling cannot starve hand-outs
	scripts   *scripts
	log       *slog.Logger
	condition atomic.Pointer[condition] // what the monitor saw last; never nil
}

// run executes a script off the hot path, with keys and arguments by position.
func (c *client) run(ctx context.Context, script *script, keys []string, args ...any) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	reply, err := script.Run(ctx, c.slow, keys, args...).Result()
	return reply, down(c.explain(ctx, err, keys))
}

// number runs a script that replies with one number.
func (c *client) number(ctx context.Context, script *script, keys []string, args ...any) (int64, error) {
	reply, err := c.run(ctx, script, keys, args...)
	if err != nil {
		return 0, err
	}
	n, ok := reply.(int64)
	if !ok {
		return 0, fmt.Errorf("pool: script answered %T where a number belongs", reply)
	}
	return n, nil
}

// integers reads the first n numbers of a script's reply.
func integers(reply any, n int) ([]int64, error) {
	list, ok := reply.([]any)
	if !ok || len(list) < n {
		return nil, fmt.Errorf("pool: script answered %T with too little in it", reply)
	}
	numbers := make([]int64, n)
	for i := range numbers {
		if numbers[i], ok = list[i].(int64); !ok {
			return nil, fmt.Errorf("pool: script answered %T where a number belongs", list[i])
		}
	}
	return numbers, nil
}

// pipelined sends many calls of one script in one exchange; each call then has its reply or its
// error. A pipeline does not load a script that a node lacks, so pipelined sends the calls that
// a node refused for it again, with the text. Calls at other nodes of a cluster were executed,
// and are not repeated.
func (c *client) pipelined(ctx context.Context, name string, fill func(call func(keys any, a args, tail ...any) *redis.Cmd)) {
	type sent struct {
		keys   []string
		args   []any
		answer *redis.Cmd
	}
	script := c.script(name)
	var calls []sent
	c.exchange(ctx, func(ctx context.Context, pipe redis.Pipeliner) {
		fill(func(keys any, a args, tail ...any) *redis.Cmd {
			names, values := script.input(keys, a, tail...)
			answer := script.EvalSha(ctx, pipe, names, values...)
			calls = append(calls, sent{names, values, answer})
			return answer
		})
	})
	forgotten := slices.DeleteFunc(calls, func(call sent) bool { return !redis.HasErrorPrefix(call.answer.Err(), "NOSCRIPT") })
	again := make([]*redis.Cmd, len(forgotten))
	c.exchange(ctx, func(ctx context.Context, pipe redis.Pipeliner) {
		for i, call := range forgotten {
			again[i] = script.Eval(ctx, pipe, call.keys, call.args...)
		}
	})
	for i, call := range forgotten {
		call.answer.SetVal(again[i].Val())
		call.answer.SetErr(again[i].Err())
	}
}

// exchange sends the commands that fill puts into a pipeline.
func (c *client) exchange(ctx context.Context, fill func(context.Context, redis.Pipeliner)) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	pipe := c.slow.Pipeline()
	fill(ctx, pipe)
	_, _ = pipe.Exec(ctx) // each call has its error
}

// eachMaster calls do for each node that takes writes, in a cluster concurrently.
func (c *client) eachMaster(ctx context.Context, do func(ctx context.Context, node *redis.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	switch client := c.slow.(type) {
	case *redis.ClusterClient:
		return down(client.ForEachMaster(ctx, do))
	case *redis.Client:
		return down(do(ctx, client))
	}
	return fmt.Errorf("pool: a client of type %T", c.slow)
}

// up reports whether Redis serves at least a part of the stock.
func (c *client) up() bool { return c.condition.Load().up() }

// condition is the result of a probe. It is immutable.
type condition struct {
	err  error           // why Redis does not serve; nil = all of it serves
	away map[string]bool // masters of a cluster that do not serve; nil = all of them, or none
}

func (s *condition) up() bool { return s.err == nil || s.away != nil }

// away returns why the part of Redis with a hash tag does not serve; nil if it is not known to
// fail. A full memory does not count: Redis still executes a take that frees memory.
func (c *client) away(ctx context.Context, tag string) error {
	now := c.condition.Load()
	if now.err == nil || is(now.err, reasonMemory) {
		return nil
	}
	if cluster, ok := c.slow.(*redis.ClusterClient); ok && now.away != nil {
		// The client caches the slots: this does not ask Redis.
		master, err := cluster.MasterForKey(ctx, "{"+tag+"}")
		if known := err == nil; !known || !now.away[master.Options().Addr] {
			return nil
		}
	}
	return now.err
}

// types are the types that scripts expect of keys, by the word behind the prefix.
var types = map[string]string{
	"pool": "list", "rate": "list", "last": "list", "leads": "list", "verdicts": "list",
	"orders": "zset", "leases": "zset", "spend": "zset", "tickets": "zset", "seen": "zset", "values": "zset",
	"untold": "zset", "warm": "zset", "places": "zset", "ended": "zset", "placed": "zset",
	"records": "zset", "audit": "zset", "day": "hash", "usage": "hash", "solve": "string", "journal": "hash", "stats": "hash", "claim": "hash", "savings": "hash",
	"once": "string", "sold": "string", "bound": "string",
	"arrivals": "hash", "attempts": "hash", "standing": "hash", "guests": "zset", "folded": "zset", "retired": "hash", "compat": "hash",
}

// explain adds to a WRONGTYPE error which key holds another program's value.
func (c *client) explain(ctx context.Context, err error, keys []string) error {
	if err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	for _, key := range keys {
		word, _, _ := strings.Cut(strings.TrimPrefix(key, c.prefix+":"), ":")
		found, unread := c.slow.Type(ctx, key).Result()
		if want := types[word]; unread == nil && found != "none" && want != "" && found != want {
			return fmt.Errorf("the key %s holds a %s where a %s belongs; delete or rename it: %w", key, found, want, err)
		}
	}
	return err
}
