package redisdb

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/targets"
)

// CallTimeout limits every exchange with Redis.
const CallTimeout = time.Second

// Options are the options of Open.
type Options struct {
	// Addresses is one URL (redis://, rediss:// or unix://), or several, separated by commas, of a cluster or of
	// sentinels.
	Addresses string
	// SentinelMaster is the name of the master; "" = the addresses are not sentinels. The sentinels have a separate
	// user and password: the user and password in the addresses are the master's.
	SentinelMaster, SentinelUser, SentinelPassword string

	TLS    targets.RedisTLS // of rediss:// addresses
	Prefix string           // first part of every key
	Log    *slog.Logger
	// Probe is the interval between two probes of Redis' health; 0 = half a second. Tests that
	// simulate hours set a longer interval.
	Probe time.Duration
	// Dial opens connections to Redis; nil = the network. Tests set it to simulate lost replies.
	Dial Dialer
}

// Dialer opens a connection.
type Dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// DB is one Redis: a single server, a master behind sentinels, or a cluster. A DB is safe for
// concurrent use.
type DB struct {
	Fast   redis.UniversalClient // for takes, cancels and beats
	Slow   redis.UniversalClient // for all other calls
	Mode   string                // single, sentinel or cluster
	Prefix string                // first part of every key
	// Lost is called when Redis has lost its data, with the name of the new data. Back is called at the end of each
	// outage, with the length of the outage. Both must be set before Run, and must not block; nil = no call.
	Lost func(data string)
	Back func(away time.Duration, reason string)

	probes    redis.UniversalClient // see doc.go
	where     string                // host:port or path of each address, without user and password
	every     time.Duration         // interval between two probes
	log       *slog.Logger
	password  atomic.Pointer[string]
	verify    *tls.Config                // of the address; nil = no TLS
	tls       atomic.Pointer[tls.Config] // of new connections; nil = no TLS
	condition atomic.Pointer[condition]  // result of the last probe; never nil
	notices   atomic.Pointer[[]string]   // of the last review; never nil
	met       atomic.Bool                // whether Redis has ever worked
	probed    chan struct{}              // closed after the first probe
}

// Open makes a DB. Open does no I/O. While Redis is unavailable, every call fails with ErrDown.
func Open(o Options) (*DB, error) {
	first, hosts, err := parseAddresses(o.Addresses)
	if err != nil {
		return nil, err
	}
	db := &DB{
		Mode: modeSingle, Prefix: o.Prefix, where: strings.Join(hosts, ", "), verify: first.TLSConfig,
		every: cmp.Or(o.Probe, probeEvery), log: o.Log, probed: make(chan struct{}),
	}
	switch {
	case o.SentinelMaster != "":
		db.Mode, db.where = modeSentinel, "sentinels "+db.where
	case len(hosts) > 1:
		db.Mode = modeCluster
	}
	db.condition.Store(&condition{})
	db.notices.Store(new([]string))
	db.SetPassword(first.Password)
	db.SetTLS(o.TLS)
	for _, client := range []*redis.UniversalClient{&db.Fast, &db.Slow, &db.probes} {
		*client = db.client(o, first, hosts)
		(*client).AddHook(hook{})
	}
	return db, nil
}

// SetPassword sets the password for new connections. Open connections stay in use for at most half an
// hour, so the server must accept the old and the new password for that time, or close the
// connections.
func (db *DB) SetPassword(text string) { db.password.Store(&text) }

// SetTLS sets the certificates of new connections, as SetPassword does. It has no effect if the address is not
// rediss://.
func (db *DB) SetTLS(with targets.RedisTLS) {
	config := db.verify.Clone()
	if config != nil && with.Certificate != nil {
		config.Certificates = []tls.Certificate{*with.Certificate}
	}
	if config != nil && with.Issuers != "" {
		config.RootCAs = x509.NewCertPool()
		config.RootCAs.AppendCertsFromPEM([]byte(with.Issuers))
	}
	db.tls.Store(config)
}

// AwaitProbe waits until the first probe of Run has ended, which takes at most CallTimeout, or until
// ctx ends. Before this probe Redis counts as up.
func (db *DB) AwaitProbe(ctx context.Context) {
	select {
	case <-db.probed:
	case <-ctx.Done():
	}
}

// Close closes all clients.
func (db *DB) Close() error {
	return errors.Join(db.Fast.Close(), db.Slow.Close(), db.probes.Close())
}
