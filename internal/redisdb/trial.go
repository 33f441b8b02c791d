package redisdb

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Trial is the result of Try.
type Trial struct {
	Where   string   // host:port of each address, without a password
	Version string   // version of the server, or versions of a cluster's masters; "" = unknown
	Faults  []string // sentences about missing rights and dangerous settings
}

// The list trials contains commands that poold needs. K stands for a key that only the probe uses.
// A command may fail because of the key's type. Only a denial counts, because Redis checks the
// user's rights first. docs/configuration.md has the same list. The remaining commands are tried by
// the connection, the probe and missingRights: HELLO, CLUSTER SLOTS, COMMAND, SUBSCRIBE and
// PUBLISH.
var trials = []string{
	"ping", "info server", "time", "eval return(1) 1 K", "evalsha 0000000000000000000000000000000000000000 1 K",
	"get K", "getex K", "set K 1 PX 1000", "exists K", "pexpire K 1000", "pttl K", "type K",
	"lindex K 0", "linsert K BEFORE 1 1", "llen K", "lpop K", "lpush K 1", "lrange K 0 0", "lrem K 1 1", "ltrim K 0 0", "rpush K 1",
	"hdel K 1", "hget K 1", "hgetall K", "hincrby K 1 1", "hlen K", "hset K 1 1",
	"zadd K 1 1", "zcard K", "zcount K 0 0", "zrange K 0 0", "zrangebyscore K 0 0", "zrem K 1", "zremrangebyscore K 0 0", "zscore K 1",
	"del K",
}

// Try checks whether poold can work with Redis. Try writes only the keys of the probe, which expire
// within a minute. DB.Run repeats these checks periodically, except the check of the commands.
func (db *DB) Try(ctx context.Context) Trial {
	m := db.monitor
	t := Trial{Where: m.route.where}
	now := m.probe(ctx)
	if now.err != nil {
		t.Faults = append(t.Faults, Reason(now.err))
	}
	if !now.up() && !now.full && !is(now.err, reasonDenied) {
		return t // no server can be reached
	}
	t.Version = m.versions(ctx)
	t.Faults = slices.Concat(t.Faults, m.deniedCommands(ctx), m.faults(ctx), m.missingRights(ctx), m.route.voters.dispute(ctx))
	return t
}

func (m *monitor) versions(ctx context.Context) string {
	var mu sync.Mutex
	var found []string
	_ = m.EachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		info, err := node.Info(ctx, "server").Result()
		mu.Lock()
		defer mu.Unlock()
		if version := settingsOf(info)["redis_version"]; version != "" {
			found = append(found, version)
		}
		return err // deniedCommands reports if INFO is denied
	})
	slices.Sort(found)
	return strings.Join(slices.Compact(found), ", ")
}

// deniedCommands returns a sentence about the commands that a master denies to the user.
func (m *monitor) deniedCommands(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	var denied []string
	switch client := m.Slow.(type) {
	case *redis.Client:
		denied = deniedBy(ctx, client, m.probeKey(0))
	case *redis.ClusterClient:
		keys, _ := m.probedMasters(ctx, client) // if this fails, the probe has already reported the error
		for _, key := range keys {
			if node, err := client.MasterForKey(ctx, key); err == nil {
				denied = append(denied, deniedBy(ctx, node, key)...)
			}
		}
	}
	if len(denied) == 0 {
		return nil
	}
	slices.Sort(denied)
	return []string{"Redis denies its user, on keys that begin with " + m.Prefix + ":, the commands " + strings.Join(slices.Compact(denied), ", ") +
		". docs/configuration.md, Redis, lists the rights that poold needs."}
}

// deniedBy returns the commands in trials that one node denies to the user.
func deniedBy(ctx context.Context, node *redis.Client, key string) (denied []string) {
	pipe := node.Pipeline()
	for _, trial := range trials {
		var words []any
		for _, word := range strings.Fields(trial) {
			if word == "K" {
				word = key
			}
			words = append(words, word)
		}
		pipe.Do(ctx, words...)
	}
	answers, _ := pipe.Exec(ctx) // each command has its own error
	for _, a := range answers {
		if a.Err() != nil && is(Down(a.Err()), reasonDenied) {
			denied = append(denied, a.Name())
		}
	}
	return denied
}
