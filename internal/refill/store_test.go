package refill

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/pool/pooltest"
	"poold/internal/redisdb"
	"poold/internal/redisdb/redistest"
	"poold/internal/targets"
)

// testStore is the stock of one replica. It runs the real scripts on the embedded server of the
// bubble. testStore counts calls and can make looks hang.
type testStore struct {
	*pooltest.Store
	book *book

	mu        sync.Mutex
	changed   func(captcha.ID)
	looks     map[captcha.ID]int
	surveys   int // exchanges, each with the looks of one or more targets
	keeps     int // looks with Keep
	saves     int
	strangle  chan struct{} // LookAll waits for this channel and ignores its ctx
	meantime  func()        // called once, right before an order is placed; may be nil
	beatsFail bool          // whether heartbeats fail
}

// A book is a record of all orders that the replicas of a scenario placed.
type book struct {
	turn chan struct{} // lock: contains a value while an order is placed or a token is taken

	mu       sync.Mutex
	placings []placing
	replicas int
	ended    time.Time // time at which the last replica ended
}

// came records the start of a replica. The method `went` records the end of a replica.
func (b *book) came() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.replicas++
}

func (b *book) went() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.replicas--
	b.ended = time.Now()
}

// lonely returns true if only one replica runs, and the last other replica ended so long ago that
// its heartbeats have expired.
func (b *book) lonely() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.replicas == 1 && time.Since(b.ended) > 4*heartbeatLife
}

// A placing is the record of one placed order.
type placing struct {
	pool.Order
	at  time.Time
	sum int // the sum outliving + orders - waiting right before the order
}

// probeEvery is the interval of the stores' probes. It is longer than the daemon's, because a story
// covers many hours.
const probeEvery = 5 * time.Second

func newTestStore(t testing.TB, redis *redistest.Bubble, b *book) *testStore {
	t.Helper()
	s := &testStore{book: b, changed: func(captcha.ID) {}, looks: map[captcha.ID]int{}}
	store, err := pooltest.Open(pool.Options{
		Addresses: "redis://bubble", Prefix: "captcha", Log: slog.New(slog.DiscardHandler), Dial: redis.Dial, Probe: probeEvery,
		OnChange: func(id captcha.ID) {
			s.mu.Lock()
			changed := s.changed
			s.mu.Unlock()
			changed(id)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Store = store
	return s
}

func (s *testStore) LookAll(ctx context.Context, queries []pool.Query) ([]pool.Stock, error) {
	s.mu.Lock()
	strangle := s.strangle
	s.surveys++
	for _, q := range queries {
		s.looks[q.ID]++
		if q.Keep {
			s.keeps++
		}
	}
	s.mu.Unlock()
	if strangle != nil {
		<-strangle
	}
	return s.Store.LookAll(ctx, queries)
}

// Heartbeat does not ask Redis if there is no second replica. Otherwise a story would spend up to
// half its time in scripts.
func (s *testStore) Heartbeat(ctx context.Context, lasts time.Duration) (self string, live []string, err error) {
	s.mu.Lock()
	fails := s.beatsFail
	s.mu.Unlock()
	if fails {
		return "", nil, errors.New("no answer")
	}
	if s.book.lonely() {
		return alone{}.Heartbeat(ctx, lasts)
	}
	return s.Store.Heartbeat(ctx, lasts)
}

// LastLook also increments the number of looks at the identity.
func (s *testStore) LastLook(ctx context.Context, id captcha.ID, margin time.Duration) error {
	s.with(func() { s.looks[id]++ })
	return s.Store.LastLook(ctx, id, margin)
}

func (s *testStore) Remember(ctx context.Context, id captcha.ID, learned []byte) error {
	err := s.Store.Remember(ctx, id, learned)
	if err == nil {
		s.with(func() { s.saves++ })
	}
	return err
}

// Place records the orders that place.lua stores. From the look of Place until the end of its
// order, no token is taken and no other order is placed.
func (s *testStore) Place(ctx context.Context, o pool.Order) (pool.Placing, error) {
	s.mu.Lock()
	meantime := s.meantime
	s.meantime = nil
	s.mu.Unlock()
	if meantime != nil {
		meantime()
	}
	s.book.turn <- struct{}{}
	defer func() { <-s.book.turn }()
	before, err := s.Look(ctx, o.Identity, o.Margin, o.Lead)
	if err != nil {
		return pool.Placing{}, err
	}
	p, err := s.Store.Place(ctx, o)
	if p.Placed {
		s.book.mu.Lock()
		defer s.book.mu.Unlock()
		s.book.placings = append(s.book.placings, placing{o, time.Now(), before.Outliving + before.Orders - before.Waiting})
	}
	return p, err
}

// take takes a token without a wait, and reports whether it got one.
func (w *scenario) take(t targets.Target) bool {
	w.t.Helper()
	return w.takeAt(w.store.Store, t)
}

func (w *scenario) takeAt(replica *pooltest.Store, t targets.Target) bool {
	w.t.Helper()
	w.book.turn <- struct{}{}
	defer func() { <-w.book.turn }()
	_, err := replica.Take(w.t.Context(), pool.Request{ID: t.ID, Margin: t.Margin})
	var empty *pool.EmptyError
	if err != nil && !errors.As(err, &empty) && !errors.Is(err, redisdb.ErrDown) {
		w.t.Errorf("a take: %v", err)
	}
	return err == nil
}

// callers starts n callers, each of which waits up to a minute for a token. When all of
// them have ended, the channel receives the number of callers that got a token.
func (w *scenario) callers(t targets.Target, n int) (served <-chan int) {
	answers, sum := make(chan bool, n), make(chan int, 1)
	for range n {
		go func() {
			_, err := w.store.Take(w.t.Context(), pool.Request{ID: t.ID, Margin: t.Margin, Wait: time.Minute, MaxWaiting: 100})
			answers <- err == nil
		}()
	}
	go func() {
		got := 0
		for range n {
			if <-answers {
				got++
			}
		}
		sum <- got
	}()
	return sum
}

// stock returns the stock of a target. The read does not count as a look.
func (w *scenario) stock(t targets.Target) pool.Stock {
	w.t.Helper()
	s, err := w.store.Look(w.t.Context(), t.ID, t.Margin, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *scenario) fresh(t targets.Target) int {
	w.t.Helper()
	return w.stock(t).Fresh
}

func (w *scenario) held(t targets.Target) int {
	w.t.Helper()
	s := w.stock(t)
	return s.Fresh + s.Orders
}

// with holds the store's lock while it calls the function `change`.
func (s *testStore) with(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *testStore) lookCount(id captcha.ID) (one, all int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.looks {
		all += n
	}
	return s.looks[id], all
}

func (b *book) placed() []placing {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.placings)
}
