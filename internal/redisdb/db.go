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

// Options are the options of Open.
type Options struct {
	Addresses      string // one URL (redis://, rediss:// or unix://), or several, separated by commas, of a cluster or of sentinels
	SentinelMaster string // name of the master; "" = the addresses are not sentinels
	Prefix         string // first part of every key
	Log            *slog.Logger
	// Probe is the interval between two probes of Redis' health; 0 = half a second. Tests that
	// simulate hours set a longer interval.
	Probe time.Duration
	// Dial opens connections to Redis; nil = the network. Tests set it to simulate lost replies.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// DB is one Redis: a single server, a master behind sentinels, or a cluster. A DB is safe for
// concurrent use.
type DB struct {
	Hot     redis.UniversalClient // for takes and beats
	Slow    redis.UniversalClient // for all other calls
	Mode    Mode
	Prefix  string // first part of every key
	Replica string // random name of this process

	probes    redis.UniversalClient // see doc.go
	log       *slog.Logger
	password  *password // of new connections of all clients
	monitor   *monitor
	condition atomic.Pointer[condition] // result of the last probe; never nil
	back      func(away time.Duration)  // see OnBack; nil = none
}

// Open makes a DB. Open does no I/O. While Redis is unavailable, every call fails with ErrDown.
func Open(o Options) (*DB, error) {
	connect, to, secret, err := clients(o.Addresses, o.SentinelMaster, o.Dial)
	if err != nil {
		return nil, err
	}
	hot, slow, probes := connect(), connect(), connect()
	slow.AddHook(slowHook{})
	var name [8]byte
	_, _ = rand.Read(name[:]) // cannot fail: crypto/rand ends the program instead
	db := &DB{Hot: hot, Slow: slow, probes: probes, Mode: to.mode, Prefix: o.Prefix, Replica: hex.EncodeToString(name[:]), log: o.Log, password: secret}
	db.condition.Store(&condition{})
	db.monitor = &monitor{DB: db, route: to, every: cmp.Or(o.Probe, probeEvery), recovered: make(chan struct{}, 1), probed: make(chan struct{})}
	return db, nil
}

// SetPassword sets the password for new connections. Open connections stay in use for at most half an
// hour, so the server must accept the old and the new password for that time, or close the
// connections.
func (db *DB) SetPassword(text string) { db.password.Store(&text) }

// Run probes Redis and reviews its settings until ctx ends.
func (db *DB) Run(ctx context.Context) error {
	var group sync.WaitGroup
	group.Go(func() { db.monitor.watch(ctx) })
	group.Go(func() { db.monitor.review(ctx) })
	group.Wait()
	return nil
}

// AwaitProbe waits until the first probe of Run has ended, which takes at most CallTimeout, or until
// ctx ends. Before this probe Redis counts as up.
func (db *DB) AwaitProbe(ctx context.Context) {
	select {
	case <-db.monitor.probed:
	case <-ctx.Done():
	}
}

// Close closes all clients.
func (db *DB) Close() error {
	return errors.Join(db.Hot.Close(), db.Slow.Close(), db.probes.Close())
}

// EachMaster calls the function do for each node that accepts writes. In a cluster it calls do for
// all masters concurrently.
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
