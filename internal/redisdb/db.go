package redisdb

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// CallTimeout limits every exchange with Redis.
const CallTimeout = time.Second

// Options says where Redis is.
type Options struct {
	Addresses      string // redis://, rediss:// or unix://; several, comma-separated, for a cluster or sentinels
	SentinelMaster string // set: the addresses are sentinels
	Prefix         string // first part of every key
	Log            *slog.Logger
	// Probe is the time between two probes of Redis' health; 0 = half a second. Tests that
	// play hours probe less often.
	Probe time.Duration
	// Dial opens connections to Redis; nil = the network. Tests set it to simulate lost replies.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// DB is one Redis: a single server, a master behind sentinels, or a cluster. It is safe for
// concurrent use.
type DB struct {
	Hot     redis.UniversalClient // takes and returns
	Slow    redis.UniversalClient // everything else
	Mode    Mode
	Prefix  string // first part of every key
	Replica string // random name of this process

	log       *slog.Logger
	monitor   *monitor
	condition atomic.Pointer[condition] // what the last probe found; never nil
	types     keyTypes
}

// Open prepares the clients. It does no I/O: while Redis is away every call answers ErrDown.
func Open(o Options) (*DB, error) {
	hot, to, err := connect(o.Addresses, o.SentinelMaster, o.Dial)
	if err != nil {
		return nil, err
	}
	slow, _, err := connect(o.Addresses, o.SentinelMaster, o.Dial)
	if err != nil {
		_ = hot.Close()
		return nil, err
	}
	slow.AddHook(slowHook{})
	var name [8]byte
	_, _ = rand.Read(name[:]) // never fails: crypto/rand ends the program instead
	db := &DB{Hot: hot, Slow: slow, Mode: to.mode, Prefix: o.Prefix, Replica: hex.EncodeToString(name[:]), log: o.Log}
	db.condition.Store(&condition{})
	db.monitor = &monitor{DB: db, route: to, every: cmp.Or(o.Probe, probeEvery), recovered: make(chan struct{}, 1)}
	return db, nil
}

// Run probes Redis and reviews its settings until ctx ends.
func (db *DB) Run(ctx context.Context) error {
	var group sync.WaitGroup
	group.Go(func() { db.monitor.watch(ctx) })
	group.Go(func() { db.monitor.review(ctx) })
	group.Wait()
	return nil
}

// Close closes the connections.
func (db *DB) Close() error { return errors.Join(db.Hot.Close(), db.Slow.Close()) }

// EachMaster calls do with each node that takes writes, in a cluster with all of them at once.
func (db *DB) EachMaster(ctx context.Context, do func(ctx context.Context, node *redis.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	switch client := db.Slow.(type) {
	case *redis.ClusterClient:
		return Down(client.ForEachMaster(ctx, do))
	case *redis.Client:
		return Down(do(ctx, client))
	}
	return fmt.Errorf("redisdb: a client of type %T", db.Slow)
}
