package redisdb

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// Changes of Redis' health are noticed within probeEvery + CallTimeout.
	probeEvery = 500 * time.Millisecond
	probeLife  = time.Minute
	// probedMasters searches this number of hash tags for one tag of each master of a cluster. If a
	// master has 1 % of the slots, the search misses it in one of 29,000 cases.
	probeTags = 1024
)

// Health is the state of Redis at the last probe.
type Health struct {
	Up      bool      // whether the stock can be used
	Reason  string    // the fault, in plain words; "" = no fault
	Since   time.Time // when this replica noticed the fault; zero = no fault
	Full    bool      // whether the only fault is a full memory; tokens are then still handed out
	Notices []string  // sentences about dangerous settings
}

// Ready reports whether at least some tokens can be handed out.
func (h Health) Ready() bool { return h.Up || h.Full }

// condition is the result of a probe. It is immutable.
type condition struct {
	err     error     // fault of Redis or of a part of Redis; nil = all of Redis works
	since   time.Time // when this replica noticed the fault; zero = no fault
	partial bool      // whether some masters of a cluster are not away although others are
	full    bool      // whether each fault is a full memory; false = no fault
	away    []string  // masters of a cluster with another fault than a full memory, if partial
	stock   bool      // whether the master of the stock is not away, if partial
}

func (c *condition) up() bool { return c.err == nil || c.stock }

// Up reports whether the stock can be used. Up does not block.
func (db *DB) Up() bool { return db.condition.Load().up() }

// Health returns the result of the last probe. Health does not block.
func (db *DB) Health() Health {
	now := db.condition.Load()
	h := Health{Up: now.up()}
	if now.err != nil {
		h.Reason, h.Since, h.Full = Reason(now.err), now.since, now.full
	}
	if found := db.monitor.notices.Load(); found != nil {
		h.Notices = *found
	}
	return h
}

// OnBack sets a function that is called at the end of each outage, with its length. The function must
// not block. OnBack must be called before Run.
func (db *DB) OnBack(fn func(away time.Duration)) { db.back = fn }

// Away returns the known fault of the Redis node that stores the stock, whose hash tag is the prefix; nil
// if no fault is known. A full memory does not count, because Redis still runs scripts whose first
// write needs no memory. Away does not block.
func (db *DB) Away() error {
	now := db.condition.Load()
	if now.up() || now.full {
		return nil
	}
	return now.err
}

// Passing reports whether a call failed with err because a cluster moves keys, has no quorum, or replaces
// or lacks one of its masters while other masters work. Such a call may succeed if it is repeated.
func (db *DB) Passing(err error) bool {
	if db.Mode != ModeCluster || !errors.Is(err, ErrDown) {
		return false
	}
	var known *downError
	if partial := errors.As(err, &known) && known.partial; isReply(err) && !partial {
		return passes(err)
	}
	now := db.condition.Load()
	return now.up() || passes(now.err)
}

// passes reports whether a cluster replied with an error that ends by itself.
func passes(err error) bool {
	return is(err, reasonVotes) || is(err, reasonMoves) || is(err, reasonLoading)
}

// monitor watches the health and the settings of Redis.
type monitor struct {
	*DB

	route     route
	every     time.Duration // interval between two probes
	met       atomic.Bool   // whether Redis has ever worked
	probed    chan struct{} // closed after the first probe
	recovered chan struct{} // gets a value when Redis works again; capacity 1
	notices   atomic.Pointer[[]string]
}

// watch probes Redis periodically until ctx ends. Thanks to the probes, calls fail immediately
// while Redis is unavailable, and poold notices the end of an outage without a call. During an outage
// the probes are more frequent.
func (m *monitor) watch(ctx context.Context) {
	for first := true; ; first = false {
		pause := time.NewTimer(m.every)
		now := m.probe(ctx)
		if ctx.Err() != nil {
			return
		}
		if was := m.condition.Load(); now.err != nil {
			if now.since = was.since; now.since.IsZero() {
				now.since = time.Now()
			}
		}
		m.turn(m.condition.Swap(now), now)
		if first {
			close(m.probed)
		}
		if now.err != nil {
			pause.Reset(m.every / 10)
		}
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
	}
}

// turn logs a change of Redis' health from one condition to another.
func (m *monitor) turn(was, now *condition) {
	if was.err == nil && now.err == nil || was.err != nil && now.err != nil && Reason(was.err) == Reason(now.err) {
		return
	}
	switch {
	case now.err == nil:
		m.log.Info("redis serves again")
		if m.back != nil {
			m.back(time.Since(was.since))
		}
		select {
		case m.recovered <- struct{}{}:
		default:
		}
	case now.full:
		m.log.Error("redis is full: ready tokens are handed out, and nothing is bought", "err", now.err)
	case now.partial:
		m.log.Error("part of redis is down", "err", now.err)
	default:
		m.log.Error("redis is down: nothing is handed out or bought", "err", now.err)
	}
}

// probe checks the health of Redis. An error contains the address of Redis.
func (m *monitor) probe(ctx context.Context) *condition {
	now := m.try(ctx)
	if now.up() {
		m.met.Store(true)
	}
	var known *downError
	if errors.As(now.err, &known) && !known.partial {
		reason := known.reason
		if !m.met.Load() {
			reason = withTLSHint(reason, m.route.secure)
		}
		now.err = &downError{reason: reason, where: cmp.Or(known.where, m.route.where), cause: known.cause}
	}
	return now
}

// try writes a key with a script. In a cluster it writes a key at each master.
func (m *monitor) try(ctx context.Context) *condition {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	cluster, ok := m.Slow.(*redis.ClusterClient)
	if !ok {
		err := m.tryWrite(ctx, m.probeKey(0))
		return &condition{err: err, full: is(err, reasonMemory)}
	}
	keys, err := m.probedMasters(ctx, cluster)
	if err != nil {
		return &condition{err: Down(err)}
	}
	var mu sync.Mutex
	var group sync.WaitGroup
	faults := map[string]error{}
	for master, key := range keys {
		group.Go(func() {
			if err := m.tryWrite(ctx, key); err != nil {
				mu.Lock()
				defer mu.Unlock()
				faults[master] = err
			}
		})
	}
	group.Wait()
	now := summarise(faults, len(keys))
	if now.partial {
		// It does no I/O, because the client has the slots in memory.
		master, err := cluster.MasterForKey(ctx, "{"+m.Prefix+"}")
		now.stock = err != nil || !slices.Contains(now.away, master.Options().Addr)
	}
	return now
}

// summarise returns the condition of a cluster. The map contains the fault of each master that has
// one, and total is the number of all masters.
func summarise(faults map[string]error, total int) *condition {
	if len(faults) == 0 {
		return &condition{}
	}
	var away []string
	var err, memory error
	for _, master := range slices.Sorted(maps.Keys(faults)) {
		fault := faults[master]
		if is(fault, reasonMemory) {
			memory = &downError{reason: reasonMemory, where: master, cause: fault}
			continue
		}
		away = append(away, master)
		// An error in a node's reply is more useful than a fault of the network.
		if err == nil || isReply(fault) && !isReply(err) {
			err = fault
		}
	}
	switch len(away) {
	case 0:
		return &condition{err: memory, full: true}
	case total:
		return &condition{err: err}
	}
	return &condition{err: partialFault(err, away, total), partial: true, away: away}
}

func (m *monitor) tryWrite(ctx context.Context, key string) error {
	return Down(probe.Run(ctx, m.probes, []string{key}, probeLife.Milliseconds()).Err())
}

// probedMasters maps the address of each master of a cluster to one key of that master.
func (m *monitor) probedMasters(ctx context.Context, cluster *redis.ClusterClient) (map[string]string, error) {
	keys := map[string]string{}
	for i := range probeTags {
		key := m.probeKey(i)
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

// probeKey returns the key that a probe writes. The argument number is the hash tag of the
// key.
func (m *monitor) probeKey(number int) string {
	return m.Prefix + ":probe:{" + strconv.Itoa(number) + "}"
}
