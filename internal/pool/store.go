package pool

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"time"

	"poold/internal/captcha"
	"poold/internal/redisdb"
)

// The outcomes that OnEnded gets of an order that a callback settled, from settle.lua.
const (
	Solved       = "solved"
	RepeatedText = "the service sold this token before" // ended as Repeated
)

// Options are the options of Open.
type Options struct {
	Addresses      string // redis://, rediss:// or unix://; several, comma-separated, for a cluster or sentinels
	SentinelMaster string // set: the addresses are sentinels
	Prefix         string // first part of every key
	Log            *slog.Logger
	// OnChange is called after a change of an identity at this replica (a take, a new
	// waiter, the end of an order, a return), and with each message of the channel: the
	// identities that changed at other replicas (a landing for a waiter, a pause, a window),
	// and the keys of claims that ended or were released (redisclaims). It must not block;
	// may be nil.
	OnChange func(captcha.ID)
	// OnEnded is called when a callback ended an order at any replica: with Solved,
	// RepeatedText or Failure.Message. It must not block; may be nil.
	OnEnded func(order Ref, how string)
	// OnRequest is called once for each request of this replica that Figures.Requests
	// counts, with the time of its arrival, after Redis has counted it. It must not block;
	// may be nil.
	OnRequest func(id captcha.ID, came time.Time)
	// Probe is the time between two probes of Redis' health; 0 = half a second. Tests that
	// play hours probe less often.
	Probe time.Duration
	// Endings limits the ends of orders that are kept of an identity until Endings.Forget,
	// 600 bytes each; 0 = none. Figures.Unrecorded counts the ends beyond it.
	Endings int
	// Dial opens connections to Redis; nil = the network. Tests set it to simulate lost replies.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Store is the stock of all identities. It is safe for concurrent use.
type Store struct {
	Tokens   *Tokens
	Orders   *Orders
	Controls *Controls
	Guests   *Guests
	Replicas *Replicas
	Endings  *Endings

	// DB is the Redis that keeps all of it.
	DB *redisdb.DB

	notify *notifier
}

// Open opens Redis and prepares the parts. It does no I/O: while Redis is away every call returns
// ErrDown.
func Open(o Options) (*Store, error) {
	db, err := redisdb.Open(redisdb.Options{
		Addresses: o.Addresses, SentinelMaster: o.SentinelMaster, Prefix: o.Prefix, Log: o.Log, Probe: o.Probe, Dial: o.Dial,
	})
	if err != nil {
		return nil, err
	}
	db.Declare(types)
	c := &client{keyspace: keyspace{prefix: db.Prefix, replica: db.Replica}, db: db, scripts: loadScripts(o.Endings), log: o.Log}
	n := &notifier{client: c, changed: o.OnChange, ended: o.OnEnded}
	if n.changed == nil {
		n.changed = func(captcha.ID) {}
	}
	if n.ended == nil {
		n.ended = func(Ref, string) {}
	}
	secrets := &signing{client: c}
	tokens := &Tokens{client: c, notify: n, signing: secrets, onRequest: o.OnRequest, closing: make(chan struct{}), queues: map[captcha.ID]*takeQueue{}}
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

// Run watches Redis, listens for wake-ups, keeps the secret and forgets idle queues until ctx
// ends.
func (s *Store) Run(ctx context.Context) error {
	var group sync.WaitGroup
	group.Go(func() { _ = s.DB.Run(ctx) }) // it ends without an error
	group.Go(func() { s.notify.listen(ctx) })
	group.Go(func() { s.Tokens.signing.keep(ctx) })
	group.Go(func() { s.Tokens.forgetIdle(ctx) })
	group.Wait()
	return nil
}

// EndWaits ends every wait with ErrClosed and refuses new ones. Takes without a wait work until
// Close.
func (s *Store) EndWaits() { s.Tokens.endWaits() }

// Close ends all waits, waits for the calls in flight and closes the connections. A take
// without a reply by then counts as handed out.
func (s *Store) Close() error {
	s.Tokens.close()
	return s.DB.Close()
}
