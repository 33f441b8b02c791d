package pool

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// probeEvery and callTimeout are how late a change of Redis' health is seen.
	probeEvery = 500 * time.Millisecond
	probeLife  = time.Minute
	// probeTags is how many hash tags are tried to find one for each master of a
	// cluster. They fall evenly: one with a hundredth of the slots is missed once
	// in 29,000 clusters.
	probeTags = 1024
)

// Health is how Redis serves, as it was seen last.
type Health struct {
	Up      bool     // for all of the stock, or for a part of it
	Reason  string   // what is wrong, in plain words; "" = nothing
	Notices []string // what is dangerous about how Redis is set up, in sentences
}

// monitor watches how Redis serves and how it is set up.
type monitor struct {
	*client

	signing   *signing
	every     time.Duration // between two probes
	met       bool          // Redis has served once; of the goroutine that probes
	recovered chan struct{} // rings when Redis is back; capacity 1
	notices   atomic.Pointer[[]string]
}

func (m *monitor) health() Health {
	h := Health{Up: m.up()}
	if err := m.condition.Load().err; err != nil {
		h.Reason = Reason(err)
	}
	if found := m.notices.Load(); found != nil {
		h.Notices = *found
	}
	return h
}

// watch probes Redis now and then, so that after the first failure callers are
// told at once, and Redis' return is noticed without one of them having to try.
func (m *monitor) watch(ctx context.Context) {
	ticker := time.NewTicker(m.every)
	defer ticker.Stop()
	var read time.Time // when the secret was read last
	for {
		now := m.probe(ctx)
		if now.up() && time.Since(read) > time.Hour && m.signing.refresh(ctx) == nil {
			read = time.Now()
		}
		if ctx.Err() != nil {
			return
		}
		m.turn(m.condition.Swap(now), now)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// turn logs a change of Redis' health.
func (m *monitor) turn(was, now *condition) {
	if was.err == nil && now.err == nil || was.err != nil && now.err != nil && Reason(was.err) == Reason(now.err) {
		return
	}
	switch {
	case now.err == nil:
		m.log.Info("redis serves again")
		select {
		case m.recovered <- struct{}{}:
		default:
		}
	case now.away != nil:
		m.log.Error("a part of redis does not serve: nothing is handed out or bought for the targets in it", "reason", Reason(now.err), "err", now.err)
	default:
		m.log.Error("redis does not serve: nothing is bought, and nothing handed out but what a full memory allows", "reason", Reason(now.err), "err", now.err)
	}
}

// probe finds how Redis serves, and says of what is wrong where that is.
func (m *monitor) probe(ctx context.Context) *condition {
	now := m.try(ctx)
	m.met = m.met || now.up()
	if now.err != nil && now.away == nil {
		if !m.met {
			now.err = strange(now.err, m.secure)
		}
		now.err = at(m.where, now.err)
	}
	return now
}

// try writes a key through a script, in each master of a cluster.
func (m *monitor) try(ctx context.Context) *condition {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	cluster, ok := m.slow.(*redis.ClusterClient)
	if !ok {
		return &condition{err: m.tryWrite(ctx, m.probed(0))}
	}
	keys, err := m.probedMasters(ctx, cluster)
	if err != nil {
		return &condition{err: down(err)}
	}
	var mu sync.Mutex
	var group sync.WaitGroup
	now := &condition{away: map[string]bool{}}
	for master, key := range keys {
		group.Go(func() {
			err := m.tryWrite(ctx, key)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				now.away[master] = true
				// What a node says tells more than one that says nothing.
				if now.err == nil || is(now.err, reasonSilent) {
					now.err = err
				}
			}
		})
	}
	group.Wait()
	switch len(now.away) {
	case 0, len(keys):
		now.away = nil
	default:
		now.err = partly(now.err, slices.Collect(maps.Keys(now.away)), len(keys))
	}
	return now
}

func (m *monitor) tryWrite(ctx context.Context, key string) error {
	return down(m.script("probe").Run(ctx, m.slow, []string{key}, probeLife.Milliseconds()).Err())
}

// probedMasters names for each master of a cluster a key that it has.
func (m *monitor) probedMasters(ctx context.Context, cluster *redis.ClusterClient) (map[string]string, error) {
	keys := map[string]string{}
	for i := range probeTags {
		key := m.probed(i)
		master, err := cluster.MasterForKey(ctx, key)
		if err != nil {
			return nil, err
		}
		if addr := master.Options().Addr; keys[addr] == "" {
			keys[addr] = key
		}
	}
	return keys, nil
}
