package pool

import (
	"context"
	"strconv"
	"sync"
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

// Health tells how Redis serves; it does not block.
func (s *Store) Health() Health {
	h := Health{Up: s.Up()}
	if err := s.state.Load().err; err != nil {
		h.Reason = Reason(err)
	}
	if found := s.notices.Load(); found != nil {
		h.Notices = *found
	}
	return h
}

// Up reports whether Redis serves at least a part of the stock.
func (s *Store) Up() bool { return s.state.Load().up() }

// state is what a probe found. It is not altered once it is made.
type state struct {
	err  error           // what is wrong; nil = all of Redis serves
	away map[string]bool // masters of a cluster that do not serve; nil where all do, or none does
}

func (s *state) up() bool { return s.err == nil || s.away != nil }

// away tells why nothing can be done now for what is under a hash tag; nil where
// nothing is known to be wrong with its part of Redis. A full memory is left to
// the call: Redis lets a take that frees some.
func (s *Store) away(ctx context.Context, tag string) error {
	now := s.state.Load()
	if now.err == nil || Reason(now.err) == reasonMemory {
		return nil
	}
	if cluster, ok := s.slow.(*redis.ClusterClient); ok && now.away != nil {
		// The client knows the slots by heart: this is no exchange with Redis.
		master, err := cluster.MasterForKey(ctx, "{"+tag+"}")
		if known := err == nil; !known || !now.away[master.Options().Addr] {
			return nil
		}
	}
	return now.err
}

// watch probes Redis now and then, so that after the first failure callers are
// told at once, and Redis' return is noticed without one of them having to try.
func (s *Store) watch(ctx context.Context) {
	ticker := time.NewTicker(s.every)
	defer ticker.Stop()
	var unsealed time.Time // when the secret was read last
	for {
		now := s.probe(ctx)
		if now.up() && time.Since(unsealed) > time.Hour && s.unseal(ctx) == nil {
			unsealed = time.Now()
		}
		if ctx.Err() != nil {
			return
		}
		s.turn(s.state.Swap(now), now)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// turn logs a change of Redis' health.
func (s *Store) turn(was, now *state) {
	if was.err == nil && now.err == nil || was.err != nil && now.err != nil && Reason(was.err) == Reason(now.err) {
		return
	}
	switch {
	case now.err == nil:
		s.log.Info("redis serves again")
		select {
		case s.back <- struct{}{}:
		default:
		}
	case now.away != nil:
		s.log.Error("a part of redis does not serve: nothing is handed out or bought for the targets in it", "reason", Reason(now.err), "err", now.err)
	default:
		s.log.Error("redis does not serve: nothing is bought, and nothing handed out but what a full memory allows", "reason", Reason(now.err), "err", now.err)
	}
}

// probe writes a key through a script, in each master of a cluster.
func (s *Store) probe(ctx context.Context) *state {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	cluster, ok := s.slow.(*redis.ClusterClient)
	if !ok {
		return &state{err: s.tryWrite(ctx, s.probed(0))}
	}
	keys, err := s.probedMasters(ctx, cluster)
	if err != nil {
		return &state{err: down(err)}
	}
	var mu sync.Mutex
	var group sync.WaitGroup
	now := &state{away: map[string]bool{}}
	for master, key := range keys {
		group.Go(func() {
			err := s.tryWrite(ctx, key)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				now.away[master] = true
				// What a node says tells more than one that says nothing.
				if now.err == nil || Reason(now.err) == reasonSilent {
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
		now.err = partly(now.err, len(now.away), len(keys))
	}
	return now
}

func (s *Store) tryWrite(ctx context.Context, key string) error {
	return down(s.scripts.probe.Run(ctx, s.slow, []string{key}, probeLife.Milliseconds()).Err())
}

// probed is the key that a probe writes; its number is its hash tag.
func (s *Store) probed(number int) string { return s.prefix + ":probe:{" + strconv.Itoa(number) + "}" }

// probedMasters names for each master of a cluster a key that it has.
func (s *Store) probedMasters(ctx context.Context, cluster *redis.ClusterClient) (map[string]string, error) {
	keys := map[string]string{}
	for i := range probeTags {
		key := s.probed(i)
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
