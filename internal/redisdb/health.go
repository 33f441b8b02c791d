package redisdb

import (
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// probeEvery is the interval between two probes. A change of Redis' health is noticed within probeEvery + CallTimeout.
const probeEvery = 500 * time.Millisecond

// writes is a script that fails whenever a script of package pool would fail: on a replica, without free memory, with
// too few replicas, while Redis loads its data, and without the right to run scripts or to write the keys. In most of
// these cases PING would succeed. The script returns a random name of the data, which changes if Redis has lost the
// data. It also returns when a replica noticed the last loss, in Unix ms, if this was within a day, because a restarted
// replica does not know the former name.
var writes = NewScript(`
redis.call('SET', KEYS[1], ARGV[1], 'NX')
local lost = redis.call('GET', KEYS[2]) or '0'
if tonumber(ARGV[2]) > tonumber(lost) then -- of the last one
  lost = ARGV[2]
  redis.call('SET', KEYS[2], lost, 'PX', 86400000)
end
return {redis.call('GET', KEYS[1]), lost}`)

// Health is the state of Redis at the last probe.
type Health struct {
	Up      bool      // whether Redis can be used
	Reason  string    // the fault, in plain words; "" = no fault
	Since   time.Time // when this replica noticed the fault; zero = no fault
	Full    bool      // whether the fault is a full memory; tokens are then still handed out
	Lost    time.Time // when a replica noticed that Redis had lost its data; zero = not in the last day
	Notices []string  // sentences about dangerous settings
}

// Ready reports whether at least some tokens can be handed out.
func (h Health) Ready() bool { return h.Up || h.Full }

// condition is the result of a probe. It is immutable.
type condition struct {
	fault error     // of the master, or of a cluster's master with the slot of the prefix
	since time.Time // when this replica noticed the fault; zero = no fault
	data  string    // name of the data; "" = unknown
	lost  time.Time // see Health
}

func (c *condition) full() bool { return is(c.fault, reasonMemory) }

// Health returns the result of the last probe. Health does not block.
func (db *DB) Health() Health {
	now := db.condition.Load()
	h := Health{Up: now.fault == nil, Full: now.full(), Since: now.since, Lost: now.lost, Notices: *db.notices.Load()}
	if now.fault != nil {
		h.Reason = Reason(now.fault)
	}
	return h
}

// Away returns an error if Redis is known to be unusable, and nil otherwise. A full memory does not count as a fault,
// because Redis still runs scripts whose first write needs no memory. Away does not block.
func (db *DB) Away() error {
	if now := db.condition.Load(); !now.full() {
		return now.fault
	}
	return nil
}

// Run probes Redis and reviews its settings until ctx ends. Thanks to the probes, calls fail immediately
// while Redis is unavailable, and poold notices the end of an outage without a call. During an outage
// the probes are more frequent.
func (db *DB) Run(ctx context.Context) error {
	known, reviewed := sync.OnceFunc(func() { close(db.probed) }), time.Time{}
	for {
		was, pause := db.condition.Load(), db.every
		var reviewing sync.WaitGroup
		if was.fault == nil && time.Since(reviewed) >= reviewEvery {
			first := reviewed.IsZero()
			reviewed = time.Now()
			reviewing.Go(func() { db.review(ctx, first) })
		}
		now := db.probe(ctx, was.lost)
		reviewing.Wait()
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the end of ctx is not a failure
		}
		if now.data == "" {
			now.data, now.lost = was.data, was.lost
		} else if was.data != "" && was.data != now.data {
			now.lost = time.Now()
			db.log.Error("redis lost its data: ready tokens, orders in flight and the counts of budgets are gone")
			if db.Lost != nil {
				db.Lost(now.data)
			}
		}
		if now.fault != nil {
			if now.since = was.since; now.since.IsZero() {
				now.since = time.Now()
			}
			pause /= 10
			reviewed = time.Time{} // the settings are read again when the outage ends
		}
		db.condition.Store(now)
		db.report(was, now)
		known()
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// report logs a change of Redis' health.
func (db *DB) report(was, now *condition) {
	err := now.fault
	switch {
	case err == nil && was.fault == nil:
	case err == nil:
		db.log.Info("redis serves again", "from", was.since.UTC().Truncate(time.Second),
			"took", time.Since(was.since).Round(time.Second))
		if db.Back != nil {
			db.Back(time.Since(was.since), Reason(was.fault))
		}
	case was.fault != nil && Reason(was.fault) == Reason(err):
	case now.full():
		db.log.Error("redis is full: ready tokens are handed out, and nothing is bought", "err", err)
	default:
		db.log.Error("redis is down: nothing is handed out or bought", "err", err)
	}
}

// probe checks with a script whether Redis can be used. The argument lost is when this replica noticed that Redis
// had lost its data.
func (db *DB) probe(ctx context.Context, lost time.Time) *condition {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	key := "{" + db.Prefix + "}:data"
	reply, err := writes.Run(ctx, db.probes, []string{key, "{" + db.Prefix + "}:lost"},
		rand.Text(), max(0, lost.UnixMilli())).StringSlice()
	if err == nil {
		db.met.Store(true)
		now := &condition{data: reply[0]}
		if ms, _ := strconv.ParseInt(reply[1], 10, 64); ms > 0 {
			now.lost = time.UnixMilli(ms)
		}
		return now
	}
	failed, _ := errors.AsType[*downError](err) // of the hook
	down := *failed
	down.where = db.where
	switch {
	case db.met.Load():
	case db.verify != nil && down.reason == reasonSilent:
		down.more = ", or speaks no TLS there"
	case db.verify == nil && down.reason == reasonClosed:
		down.more = ": if it requires TLS, begin with rediss://"
	}
	if cluster, is := db.probes.(*redis.ClusterClient); is {
		if master, err := cluster.MasterForKey(ctx, key); err == nil { // without I/O if the slots are known
			down.where = master.Options().Addr
		}
	}
	return &condition{fault: &down}
}
