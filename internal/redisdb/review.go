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
	// reviewEvery is how often Redis' settings are looked at without a reason.
	reviewEvery = time.Minute
	// oldestServer is what the scripts are written for.
	oldestServer = "6.2"
)

// review looks at how Redis is set up, at the start, when it is back, and every
// minute, and warns of what is new.
func (m *monitor) review(ctx context.Context) {
	ticker := time.NewTicker(reviewEvery)
	defer ticker.Stop()
	warned := []string{}
	for {
		found := append(m.faults(ctx), m.missingRights(ctx)...)
		if ctx.Err() != nil {
			return
		}
		if !m.Up() {
			found = nil // who does not answer says nothing about its settings
		}
		for _, fault := range found {
			if !slices.Contains(warned, fault) {
				m.log.Warn(fault)
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

// faults asks each master what INFO tells of dangerous settings. In a cluster
// their addresses stand behind what was found.
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
		// Without the right to INFO nobody can say whether anything is wrong.
		m.log.DebugContext(ctx, "redis does not tell its settings", "err", err)
	}
	found := slices.Sorted(maps.Keys(where))
	if m.Mode == ModeCluster {
		for i, fault := range found {
			slices.Sort(where[fault])
			found[i] = strings.TrimSuffix(fault, ".") + " (" + strings.Join(where[fault], ", ") + ")."
		}
	}
	return found
}

// faultsOf judges an answer to INFO. What it does not tell is no fault.
func faultsOf(info string) []string {
	told := settingsOf(info)
	var faults []string
	if version := told["redis_version"]; version != "" && older(version, oldestServer) {
		faults = append(faults, fmt.Sprintf("Redis is of version %s: poold needs %s or later.", version, oldestServer))
	}
	if policy := told["maxmemory_policy"]; policy != "" && policy != "noeviction" {
		faults = append(faults, "Redis evicts keys when its memory is full (maxmemory-policy "+policy+"): paid tokens and orders vanish, and are bought again. Set noeviction.")
	}
	if told["aof_enabled"] == "0" {
		faults = append(faults, "Redis keeps no append-only file: a restart of it loses tokens and orders that were paid for. Set appendonly yes.")
	}
	if told["role"] == "slave" {
		faults = append(faults, "Redis is a replica: what is written to it is lost. Name its master, or the sentinels.")
	}
	most, _ := strconv.ParseFloat(told["maxmemory"], 64)
	used, _ := strconv.ParseFloat(told["used_memory"], 64)
	if most > 0 && used > 0.9*most {
		faults = append(faults, "Redis' memory is nearly full: more than 90 % of maxmemory is used.")
	}
	return faults
}

// settingsOf reads an answer to INFO.
func settingsOf(info string) map[string]string {
	told := map[string]string{}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		told[name] = value
	}
	return told
}

// older compares the first two numbers of two versions.
func older(version, than string) bool {
	numbers := func(text string) (n [2]int) {
		for i, part := range strings.SplitN(text, ".", 3) {
			if i < len(n) {
				n[i], _ = strconv.Atoi(part)
			}
		}
		return n
	}
	a, b := numbers(version), numbers(than)
	return slices.Compare(a[:], b[:]) < 0
}

// missingRights tries what replicas tell each other with. Without it everything
// works, but later: by polls, and a landing for a waiter may wait for half a second.
func (m *monitor) missingRights(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	trial := m.Slow.Subscribe(ctx, m.Channel())
	_, err := trial.Receive(ctx)
	_ = trial.Close()
	if err == nil {
		err = m.Slow.Publish(ctx, m.Channel(), "").Err() // of no identity: nobody does anything about it
	}
	if err == nil || !is(Down(err), reasonDenied) {
		return nil
	}
	return []string{"Redis denies its user SUBSCRIBE or PUBLISH on the channel " + m.Channel() +
		": replicas hear of landings, pauses and windows up to seconds later. docs/configuration.md, Redis, lists the rights that poold needs."}
}
