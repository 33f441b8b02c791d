package redisdb

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// reviewEvery is the interval between two reviews of Redis' settings.
	reviewEvery = time.Minute
	// oldestServer is the oldest version of Redis with all commands of the scripts.
	oldestServer = "6.2"
)

// review checks for dangerous settings: at the start, after each outage and
// every minute. review logs only the problems that the previous check did not find.
func (m *monitor) review(ctx context.Context) {
	ticker := time.NewTicker(reviewEvery)
	defer ticker.Stop()
	warned := []string{}
	for {
		found := m.faults(ctx)
		if ctx.Err() != nil {
			return
		}
		if !m.Up() {
			found = nil // during an outage, the settings of Redis are unknown
		}
		for _, fault := range found {
			if !slices.Contains(warned, fault) {
				m.log.Warn("redis has a dangerous setting", "err", fault)
			}
		}
		warned = found
		m.notices.Store(&found)
		select {
		case <-ctx.Done():
			return
		case <-m.recovered:
			warned = nil
		case <-ticker.C:
		}
	}
}

// faults reads the INFO of each master and returns sentences about dangerous settings.
// In a cluster each sentence contains the address of its master.
func (m *monitor) faults(ctx context.Context) []string {
	var mu sync.Mutex
	where := map[string][]string{}
	err := m.EachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		info, err := node.Info(ctx).Result()
		mu.Lock()
		defer mu.Unlock()
		for _, fault := range faultsOf(info) {
			where[fault] = append(where[fault], node.Options().Addr)
		}
		return err
	})
	if err != nil {
		// Without the right to call INFO, the settings are unknown.
		m.log.DebugContext(ctx, "redis settings unknown", "err", err)
	}
	found := slices.Sorted(maps.Keys(where))
	if m.Mode == ModeCluster {
		for i, fault := range found {
			slices.Sort(where[fault])
			found[i] = fault + " (" + strings.Join(where[fault], ", ") + ")"
		}
	}
	return found
}

// faultsOf returns sentences about the dangerous settings in a reply to INFO. Missing settings are
// ignored.
func faultsOf(info string) []string {
	settings := settingsOf(info)
	var faults []string
	if version := settings["redis_version"]; version != "" && isOlder(version, oldestServer) {
		faults = append(faults, fmt.Sprintf("Redis is of version %s: poold needs %s or later; upgrade Redis", version, oldestServer))
	}
	if policy := settings["maxmemory_policy"]; policy != "" && policy != "noeviction" {
		faults = append(faults, "Redis evicts keys when its memory is full (maxmemory-policy "+policy+"): paid tokens and orders vanish, and are bought again; set noeviction")
	}
	if settings["aof_enabled"] == "0" {
		faults = append(faults, "Redis keeps no append-only file: a restart of it loses tokens and orders that were paid for; set appendonly yes")
	}
	if settings["role"] == "slave" {
		faults = append(faults, "Redis is a replica: what is written to it is lost; name its master, or the sentinels")
	}
	most, _ := strconv.ParseFloat(settings["maxmemory"], 64)
	used, _ := strconv.ParseFloat(settings["used_memory"], 64)
	if most > 0 && used > 0.9*most {
		faults = append(faults, "Redis' memory is nearly full: more than 90 % of maxmemory is used, and a full memory stops purchases; raise maxmemory")
	}
	return faults
}

func settingsOf(info string) map[string]string {
	settings := map[string]string{}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		settings[name] = value
	}
	return settings
}

// isOlder reports whether a version is older than another version. Only their first two numbers
// count.
func isOlder(version, other string) bool {
	numbers := func(text string) (n [2]int) {
		for i, part := range strings.SplitN(text, ".", 3) {
			if i < len(n) {
				n[i], _ = strconv.Atoi(part)
			}
		}
		return n
	}
	a, b := numbers(version), numbers(other)
	return slices.Compare(a[:], b[:]) < 0
}
