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
	Faults  []string // sentences about the fault of Redis and dangerous settings
}

// Try checks whether poold can work with Redis. Try writes only the keys of the probe, which expire
// within a minute. DB.Run repeats these checks periodically.
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
	t.Faults = append(t.Faults, m.faults(ctx)...)
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
		return err
	})
	slices.Sort(found)
	return strings.Join(slices.Compact(found), ", ")
}
