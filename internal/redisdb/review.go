package redisdb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// reviewEvery is the interval between two reviews of Redis' settings.
const reviewEvery = time.Minute

// review logs the dangerous settings that the previous review did not find; the first review after the start or after
// an outage logs all of them. Run calls review at the start, after an outage, and every minute.
func (db *DB) review(ctx context.Context, first bool) {
	found, _ := db.inspect(ctx)
	for _, fault := range found {
		if first || !slices.Contains(*db.notices.Load(), fault) {
			db.log.Warn("redis has a dangerous setting", "err", fault)
		}
	}
	db.notices.Store(&found)
}

// inspect reads the INFO of each master and returns sentences about dangerous settings, and the versions, both sorted.
// Without the right to call INFO, nothing is known.
func (db *DB) inspect(ctx context.Context) (found, versions []string) {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	var mu sync.Mutex
	read := func(ctx context.Context, node *redis.Client) error {
		settings := settingsOf(node.Info(ctx).Val())
		mu.Lock()
		defer mu.Unlock()
		if version := settings["redis_version"]; version != "" {
			versions = append(versions, version)
		}
		found = append(found, faultsOf(settings)...)
		return nil
	}
	switch client := db.Slow.(type) {
	case *redis.ClusterClient:
		_ = client.ForEachMaster(ctx, read)
	case *redis.Client:
		_ = read(ctx, client)
	}
	slices.Sort(found)
	slices.Sort(versions)
	return slices.Compact(found), slices.Compact(versions)
}

// faultsOf returns sentences about dangerous settings. Missing settings are ignored.
func faultsOf(settings map[string]string) []string {
	var faults []string
	var major, minor int
	version := settings["redis_version"] // 6.2 is the first one with all commands of the scripts
	if n, _ := fmt.Sscanf(version, "%d.%d", &major, &minor); n == 2 && (major < 6 || major == 6 && minor < 2) {
		faults = append(faults, "Redis is of version "+version+": poold needs 6.2 or later; upgrade Redis")
	}
	if policy := settings["maxmemory_policy"]; policy != "" && policy != "noeviction" {
		faults = append(faults, "Redis evicts keys when its memory is full (maxmemory-policy "+policy+
			"): paid tokens and orders vanish, and are bought again; set noeviction")
	}
	if settings["aof_enabled"] == "0" {
		faults = append(faults,
			"Redis keeps no append-only file: a restart of it loses tokens and orders that were paid for; set appendonly yes")
	}
	if settings["role"] == "slave" {
		faults = append(faults, "Redis is a replica: what is written to it is lost; name its master, or the sentinels")
	}
	most, _ := strconv.ParseFloat(settings["maxmemory"], 64)
	used, _ := strconv.ParseFloat(settings["used_memory"], 64)
	if most > 0 && used > 0.9*most {
		faults = append(faults,
			"Redis' memory is nearly full: more than 90 % of maxmemory is used, and a full memory stops purchases; "+
				"raise maxmemory")
	}
	return faults
}

// settingsOf reads a reply to INFO.
func settingsOf(info string) map[string]string {
	settings := map[string]string{}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		settings[name] = value
	}
	return settings
}

// Try checks whether poold can work with Redis, and describes the server. The error names the fault of Redis, or all
// dangerous settings. Try writes only the keys of the probe. DB.Run repeats these checks periodically.
func (db *DB) Try(ctx context.Context) (found string, err error) {
	var faults, versions []string
	now := db.probe(ctx, time.Time{})
	if now.fault == nil || now.full() || is(now.fault, reasonDenied) { // a server was reached
		faults, versions = db.inspect(ctx)
	}
	if now.fault != nil {
		faults = append([]string{Reason(now.fault)}, faults...)
	}
	if len(faults) > 0 {
		return "", errors.New(strings.Join(faults, "; "))
	}
	version := cmp.Or(strings.Join(versions, ", "), "unknown")
	return fmt.Sprintf("%s, version %s, keeps an append-only file, evicts nothing", db.where, version), nil
}
