package pool

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool/tokenid"
	"poold/internal/redisdb"
)

// The outcomes that settle.lua publishes for an order that a callback settled; see Options.OnEnded.
const (
	Solved       = "solved"
	RepeatedText = "the service sold this token before" // the order ended as Repeated
)

// Options are the options of Open.
type Options struct {
	Addresses      string // one URL (redis://, rediss:// or unix://), or several, separated by commas, of a cluster or of sentinels
	SentinelMaster string // name of the master; "" = the addresses are not sentinels
	Prefix         string // first part of every key
	Log            *slog.Logger
	// OnChange is called after a change of an identity at this replica: a take, a new pending caller,
	// the end of an order, a return. OnChange is also called for each message of the channel. A
	// message names an identity that changed at another replica (a landing while callers wait, a
	// pause), or the key of a claim that ended or was released (see redisclaims). OnChange
	// must not block; it may be nil.
	OnChange func(captcha.ID)
	// OnEnded is called when a callback ended an order at any replica. The argument how is Solved,
	// RepeatedText or Failure.Message. OnEnded must not block; it may be nil.
	OnEnded func(order Ref, how string)
	// Probe is the interval between two probes of Redis' health; 0 = half a second. Tests that
	// simulate hours set a longer interval.
	Probe time.Duration
	// Endings is the maximum number of ended orders that Redis stores per identity; 0 = none. An
	// ended order takes 600 bytes. Endings.Forget removes ended orders. Figures.Unrecorded counts
	// those beyond the limit.
	Endings int
	// Dial opens connections to Redis; nil = the network. Tests set it to simulate lost replies.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Store is the stock of all identities. Store is safe for concurrent use.
type Store struct {
	Tokens   *Tokens
	Orders   *Orders
	Controls *Controls
	Guests   *Guests
	Replicas *Replicas
	Endings  *Endings

	// DB is the Redis that all parts use.
	DB *redisdb.DB

	notify *notifier
}

// Open makes a Store. Open does no I/O. While Redis is unavailable, the methods of the Store fail with
// redisdb.ErrDown.
func Open(o Options) (*Store, error) {
	db, err := redisdb.Open(redisdb.Options{
		Addresses: o.Addresses, SentinelMaster: o.SentinelMaster, Prefix: o.Prefix, Log: o.Log, Probe: o.Probe, Dial: o.Dial,
	})
	if err != nil {
		return nil, err
	}
	c := &client{keyspace: keyspace{prefix: db.Prefix, replica: db.Replica}, db: db, scripts: loadScripts(o.Endings), log: o.Log}
	n := &notifier{client: c, changed: o.OnChange, ended: o.OnEnded}
	if n.changed == nil {
		n.changed = func(captcha.ID) {}
	}
	if n.ended == nil {
		n.ended = func(Ref, string) {}
	}
	tokens := &Tokens{client: c, notify: n, secret: tokenid.New(db, c.secretKey()), closing: make(chan struct{}), queues: map[captcha.ID]*takeQueue{}}
	tokens.returns = &returns{client: c, notify: n, spawn: tokens.spawn, closing: tokens.closing, pending: map[captcha.ID][]pendingReturn{}}
	n.wake = tokens.wake
	return &Store{
		Tokens:   tokens,
		Orders:   &Orders{client: c, notify: n, endings: o.Endings, listed: redisdb.Seldom{Every: placedEvery}},
		Controls: &Controls{client: c, notify: n},
		Guests:   &Guests{client: c, most: mostGuests},
		Replicas: &Replicas{client: c},
		Endings:  &Endings{client: c},
		DB:       db,
		notify:   n,
	}, nil
}

// Run probes Redis, handles messages of other replicas, refreshes the secret and drops idle queues
// until ctx ends.
func (s *Store) Run(ctx context.Context) error {
	var group sync.WaitGroup
	group.Go(func() { _ = s.DB.Run(ctx) }) // DB.Run always returns nil
	group.Go(func() { s.notify.listen(ctx) })
	group.Go(func() { s.Tokens.secret.Keep(ctx) })
	group.Go(func() { s.Tokens.forgetIdle(ctx) })
	group.Wait()
	return nil
}

// EndWaits ends every wait with ErrClosed and refuses new waits. Calls of Take without a wait work
// until Close.
func (s *Store) EndWaits() { s.Tokens.endWaits() }

// Close ends all waits, waits for the calls in flight and closes the connections. If Close ends a
// take before its reply arrives, the tokens of this take count as handed out.
func (s *Store) Close() error {
	s.Tokens.close()
	return s.DB.Close()
}
