package pool

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"poold/internal/captcha"
)

// What OnEnded is told of an order that a callback settled; settle.lua says it.
const (
	Solved       = "solved"
	RepeatedText = "the service sold this token before" // ended as Repeated
)

// Options says where the stock is kept.
type Options struct {
	Addresses      string // redis://, rediss:// or unix://; several, comma-separated, for a cluster or sentinels
	SentinelMaster string // set: the addresses are sentinels
	Prefix         string // first part of every key
	Log            *slog.Logger
	// OnChange is called after something happened to an identity here (a take, a
	// new waiter, an order's end, a return) or elsewhere what others must know (a
	// landing for a waiter, a pause, a window). The solve of a claim that ended or was
	// let go, here or elsewhere, is told by the claim's key. It must not block. May be nil.
	OnChange func(captcha.ID)
	// OnEnded is called when a callback ended an order at any replica: with Solved,
	// or with what Failure.Tell says. It must not block. May be nil.
	OnEnded func(order Ref, how string)
	// OnRequest is called once for each request of this replica that Figures.Requests
	// counts, with the moment at which it came here, once Redis has counted it. It must
	// not block. May be nil.
	OnRequest func(id captcha.ID, came time.Time)
	// Probe is how often Redis' health is tried; 0 = twice a second. Tests that play
	// hours try it less often.
	Probe time.Duration
	// ClaimTimes are shortened by tests that have no bubble.
	ClaimTimes ClaimTimes
	// Endings is how many ends of orders are kept of an identity until they are
	// forgotten (Endings.Forget), 600 bytes each; 0 = none are. What comes beyond is
	// counted as Figures.Unrecorded.
	Endings int
	// Dial opens connections to Redis; nil = the network. Tests lose replies here.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Store is the stock of all identities, behind the faces that its users see. It is
// safe for concurrent use.
type Store struct {
	Tokens    *Tokens
	Orders    *Orders
	Standings *Standings
	Controls  *Controls
	Guests    *Guests
	Replicas  *Replicas
	Claims    *Claims
	Endings   *Endings
	Archive   *Archive
	Arrivals  *Arrivals
	Tasks     *Tasks

	client  *client
	news    *news
	monitor *monitor
}

// Open prepares the clients. It does no I/O: a Redis that is away makes every
// call answer ErrDown until it is back.
func Open(o Options) (*Store, error) {
	var name [8]byte
	_, _ = rand.Read(name[:]) // never fails: crypto/rand ends the program instead
	hot, to, err := connect(o.Addresses, o.SentinelMaster, o.Dial)
	if err != nil {
		return nil, err
	}
	slow, _, err := connect(o.Addresses, o.SentinelMaster, o.Dial)
	if err != nil {
		_ = hot.Close()
		return nil, err
	}
	c := &client{
		keyspace: keyspace{prefix: o.Prefix, replica: hex.EncodeToString(name[:])},
		route:    to, hot: hot, slow: slow, scripts: loadScripts(o.Endings), log: o.Log,
	}
	c.condition.Store(&condition{})
	n := &news{client: c, changed: o.OnChange, ended: o.OnEnded}
	if n.changed == nil {
		n.changed = func(captcha.ID) {}
	}
	if n.ended == nil {
		n.ended = func(Ref, string) {}
	}
	secrets := &signing{client: c}
	tokens := &Tokens{client: c, news: n, signing: secrets, onRequest: o.OnRequest, closing: make(chan struct{}), queues: map[captcha.ID]*takeQueue{}}
	tokens.returns = &returns{client: c, news: n, spawn: tokens.spawn, closing: tokens.closing, pending: map[captcha.ID][]unwanted{}}
	n.wake = tokens.wake
	return &Store{
		Tokens:    tokens,
		Orders:    &Orders{client: c, news: n, endings: o.Endings, noted: map[string]time.Time{}, listed: map[captcha.ID]time.Time{}},
		Standings: &Standings{c},
		Controls:  &Controls{client: c, news: n},
		Guests:    &Guests{client: c, most: mostGuests},
		Replicas:  &Replicas{client: c},
		Claims:    &Claims{client: c, news: n, times: o.ClaimTimes.OrDefault()},
		Endings:   &Endings{client: c},
		Archive:   &Archive{client: c},
		Arrivals:  &Arrivals{client: c},
		Tasks:     &Tasks{client: c},
		client:    c, news: n,
		monitor: &monitor{client: c, signing: secrets, every: cmp.Or(o.Probe, probeEvery), recovered: make(chan struct{}, 1)},
	}, nil
}

// Mode says how Redis is run.
func (s *Store) Mode() Mode { return s.client.mode }

// Health tells how Redis serves; it does not block.
func (s *Store) Health() Health { return s.monitor.health() }

// Run keeps watch over Redis, reviews how it is set up, listens for wake-ups and
// forgets idle queues until ctx ends.
func (s *Store) Run(ctx context.Context) error {
	var group sync.WaitGroup
	group.Go(func() { s.monitor.watch(ctx) })
	group.Go(func() { s.news.listen(ctx) })
	group.Go(func() { s.monitor.review(ctx) })
	group.Go(func() { s.Tokens.forgetIdle(ctx) })
	group.Wait()
	return nil
}

// SendAway ends every wait with ErrClosed and refuses new ones; takes without
// a wait go on until Close.
func (s *Store) SendAway() { s.Tokens.sendAway() }

// Close sends everybody away, waits for the calls under way and closes the
// connections. A take whose answer is still unknown then counts as handed out.
func (s *Store) Close() error {
	s.Tokens.close()
	return errors.Join(s.client.hot.Close(), s.client.slow.Close())
}
