package pool

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

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
	// landing for a waiter, a pause, a window). It must not block. May be nil.
	OnChange func(captcha.ID)
	// OnEnded is called when a callback ended an order at any replica: with Solved,
	// or with what Failure.Tell says. It must not block. May be nil.
	OnEnded func(order Ref, how string)
	// Probe is how often Redis' health is tried; 0 = twice a second. Tests that play
	// hours try it less often.
	Probe time.Duration
	// Dial opens connections to Redis; nil = the network. Tests lose replies here.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Store is the stock of all identities. It is safe for concurrent use.
type Store struct {
	hot     redis.UniversalClient // takes and returns
	slow    redis.UniversalClient // everything else, so that refilling cannot starve hand-outs
	mode    Mode
	prefix  string
	replica string // random name of this process
	scripts scripts
	log     *slog.Logger
	changed func(captcha.ID)
	ended   func(Ref, string)
	every   time.Duration          // between two probes
	sealer  atomic.Pointer[sealer] // nil until Redis told the secret

	state    atomic.Pointer[state]
	notices  atomic.Pointer[[]string]
	back     chan struct{}  // rings when Redis is back; capacity 1
	calls    atomic.Int64   // numbers the takes of this replica
	handouts atomic.Int64   // numbers its hand-outs
	tickets  atomic.Int64   // numbers its waiting callers
	draining atomic.Bool    // nobody may wait any more
	closing  chan struct{}  // closed by Close
	workers  sync.WaitGroup // goroutines that serve lines

	mu     sync.Mutex
	lines  map[captcha.ID]*line
	named  map[string]time.Time // when a provider's name was written down
	closed bool
}

// Open prepares the clients. It does no I/O: a Redis that is away makes every
// call answer ErrDown until it is back.
func Open(o Options) (*Store, error) {
	var name [8]byte
	_, _ = rand.Read(name[:]) // never fails: crypto/rand ends the program instead
	hot, mode, err := connect(o.Addresses, o.SentinelMaster, o.Dial)
	if err != nil {
		return nil, err
	}
	slow, _, err := connect(o.Addresses, o.SentinelMaster, o.Dial)
	if err != nil {
		_ = hot.Close()
		return nil, err
	}
	s := &Store{
		hot: hot, slow: slow, mode: mode, prefix: o.Prefix,
		replica: hex.EncodeToString(name[:]), scripts: loadScripts(),
		log: o.Log, changed: o.OnChange, ended: o.OnEnded, every: cmp.Or(o.Probe, probeEvery),
		back: make(chan struct{}, 1), closing: make(chan struct{}),
		lines: map[captcha.ID]*line{}, named: map[string]time.Time{},
	}
	if s.changed == nil {
		s.changed = func(captcha.ID) {}
	}
	if s.ended == nil {
		s.ended = func(Ref, string) {}
	}
	s.state.Store(&state{})
	return s, nil
}

// Mode says how Redis is run.
func (s *Store) Mode() Mode { return s.mode }

// Run keeps watch over Redis, reviews how it is set up and listens for wake-ups
// until ctx ends.
func (s *Store) Run(ctx context.Context) error {
	var group sync.WaitGroup
	group.Go(func() { s.watch(ctx) })
	group.Go(func() { s.listen(ctx) })
	group.Go(func() { s.review(ctx) })
	group.Wait()
	return nil
}

// SendAway ends every wait with ErrClosed and refuses new ones; takes without
// a wait go on until Close.
func (s *Store) SendAway() {
	s.draining.Store(true)
	s.mu.Lock()
	lines := slices.Collect(maps.Values(s.lines))
	s.mu.Unlock()
	for _, l := range lines {
		l.sendAway()
	}
}

// spawn runs a line's work in a goroutine that Close waits for; false after
// Close.
func (s *Store) spawn(work func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.workers.Go(work)
	return true
}

// Close sends everybody away, waits for the calls under way and closes the
// connections. A take whose answer is still unknown then counts as handed out.
func (s *Store) Close() error {
	s.SendAway()
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.closing)
	}
	s.mu.Unlock()
	s.workers.Wait()
	return errors.Join(s.hot.Close(), s.slow.Close())
}

// listen hears of the identities in which a token landed for a waiter, whose
// buying was paused or resumed, or whose windows changed, and of orders that ended
// elsewhere, and passes it on. Polling by the lines and the leases is the
// backstop, so a lost message costs little.
func (s *Store) listen(ctx context.Context) {
	messages := s.slow.Subscribe(ctx, s.channel())
	defer func() { _ = messages.Close() }()
	again := time.NewTicker(reviewEvery)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
			// The right to listen may have been missing until now. Twice is once.
			_ = messages.Subscribe(ctx, s.channel())
		case message, ok := <-messages.Channel():
			if !ok {
				return
			}
			id, rest, _ := strings.Cut(message.Payload, " ")
			if id == "" {
				continue // a review's trial
			}
			s.wake(captcha.ID(id))
			s.changed(captcha.ID(id))
			if order, how, ok := strings.Cut(rest, " "); ok {
				s.ended(Ref{Identity: captcha.ID(id), Order: order}, how)
			}
		}
	}
}

// wake makes the waiters of this replica ask again.
func (s *Store) wake(id captcha.ID) {
	s.mu.Lock()
	l := s.lines[id]
	s.mu.Unlock()
	if l != nil {
		l.wake()
	}
}

// pauseTTL outlives any restart. A pause is renewed by every look at its identity,
// the secret that names of tokens are sealed with by every replica, hourly.
const pauseTTL = 30 * 24 * time.Hour

// Pause stops the buying for an identity, for all replicas; stock is still
// handed out.
func (s *Store) Pause(ctx context.Context, id captcha.ID) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := s.slow.Set(ctx, s.keys(id).paused, "1", pauseTTL).Err(); err != nil {
		return down(err)
	}
	s.announce(ctx, id)
	return nil
}

// Resume ends a pause; it is no error if there is none.
func (s *Store) Resume(ctx context.Context, id captcha.ID) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := s.slow.Del(ctx, s.keys(id).paused).Err(); err != nil {
		return down(err)
	}
	s.announce(ctx, id)
	return nil
}

// Recall gives back what Remember was given last for an identity; nil for
// nothing.
func (s *Store) Recall(ctx context.Context, id captcha.ID) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	learned, err := s.slow.Get(ctx, s.keys(id).mind).Bytes()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	return learned, down(err)
}

// Remember keeps what the buyer learned about an identity's demand, for 30 days.
func (s *Store) Remember(ctx context.Context, id captcha.ID, learned []byte) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return down(s.slow.Set(ctx, s.keys(id).mind, learned, pauseTTL).Err())
}

// Flush throws an identity's tokens away and says how many could still have been
// handed out.
func (s *Store) Flush(ctx context.Context, id captcha.ID, margin time.Duration) (thrown int, err error) {
	k := s.keys(id)
	n, err := s.number(ctx, s.scripts.flush, []string{k.tokens, k.stats, k.junk}, margin.Milliseconds())
	if err != nil {
		return 0, err
	}
	s.announce(ctx, id)
	return int(n), nil
}

// announce tells all replicas, this one too, that something was done to an
// identity. What was done holds also where nobody can be told: to fail for that
// would make the caller do it again. Looks and polls find it out a little later.
func (s *Store) announce(ctx context.Context, id captcha.ID) {
	s.changed(id)
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := s.slow.Publish(ctx, s.channel(), string(id)).Err(); err != nil {
		s.log.DebugContext(ctx, "other replicas were not told of a change", "err", err) // review says why
	}
}

// run executes a script off the hot path.
func (s *Store) run(ctx context.Context, script *redis.Script, keys []string, args ...any) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	reply, err := script.Run(ctx, s.slow, keys, args...).Result()
	return reply, down(s.explain(ctx, err, keys))
}

// integers reads the first n numbers of a script's answer.
func integers(reply any, n int) ([]int64, error) {
	list, ok := reply.([]any)
	if !ok || len(list) < n {
		return nil, fmt.Errorf("pool: script answered %T with too little in it", reply)
	}
	numbers := make([]int64, n)
	for i := range numbers {
		if numbers[i], ok = list[i].(int64); !ok {
			return nil, fmt.Errorf("pool: script answered %T where a number belongs", list[i])
		}
	}
	return numbers, nil
}
