package ondemand

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"poold/internal/captcha"
	"poold/internal/pool"
)

const (
	// lookEvery is how often the guests and claims here are looked at although nothing
	// was heard of them.
	lookEvery = time.Second
	// retireEvery, and up to a quarter later, is how often guests are retired.
	retireEvery = 5 * time.Second
	// countEvery is how often savings are written down.
	countEvery = time.Second
)

// Parts is what a Service is made of. All fields are required.
type Parts struct {
	Tokens  Tokens
	Guests  Guests
	Buyer   Buyer
	Claims  Claims
	Savings Savings
	// HasTarget says whether an identity has become a target's, so that it is no guest.
	HasTarget func(captcha.ID) bool
	Log       *slog.Logger
}

// Service sees to solves. It is safe for concurrent use.
type Service struct {
	tokens    Tokens
	list      Guests
	buyer     Buyer
	claims    Claims
	savings   Savings
	hasTarget func(captcha.ID) bool
	log       *slog.Logger
	refusals  refusals
	stopped   chan struct{} // closed when Run starts nothing any more
	dueBell   chan struct{} // of one: something is due
	begunBell chan struct{} // of one: something has begun
	active    atomic.Int64  // guests and shares, so that a kick of no concern costs nothing

	mu     sync.Mutex
	guests map[captcha.ID]*guest
	shares map[captcha.ID]*claimed
	due    []*guest   // to be looked at by a placer
	begun  []*claimed // to be seen through
	counts map[pool.SavingsSource]int
}

// New makes a service that has started nothing.
func New(p Parts) *Service {
	return &Service{
		tokens: p.Tokens, list: p.Guests, buyer: p.Buyer, claims: p.Claims, savings: p.Savings, hasTarget: p.HasTarget, log: p.Log,
		refusals: refusals{of: map[captcha.ID]refusal{}},
		stopped:  make(chan struct{}), dueBell: make(chan struct{}, 1), begunBell: make(chan struct{}, 1),
		guests: map[captcha.ID]*guest{}, shares: map[captcha.ID]*claimed{}, counts: map[pool.SavingsSource]int{},
	}
}

// Solve answers one request. It returns as soon as there is a token, else when the
// time-out has passed.
//
// Errors: those of pool.Tokens.Take, of which a *pool.EmptyError that is not Full says
// that the time-out has passed; *SolveError, *OutageError, *purchase.BudgetError. An
// order that was placed for the request stands, whatever the error.
func (s *Service) Solve(ctx context.Context, r Request) (pool.Token, error) {
	if r.Share != nil {
		return s.shared(ctx, r)
	}
	token, err := s.take(ctx, r)
	if err != nil {
		return pool.Token{}, err
	}
	if token.Source == pool.FromWait {
		token.Source = FromSolve
	}
	s.count(token.Source)
	return token, nil
}

// Kick says that something happened to an identity or to a claim. It never blocks for
// long, and one that nobody asks for is no error.
func (s *Service) Kick(id captcha.ID) {
	if s.active.Load() == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if g := s.guests[id]; g != nil {
		s.kickLocked(g)
	}
	if sh := s.shares[id]; sh != nil {
		ring(sh.bell)
	}
}

// Run works until ctx ends, then places no more orders, sends away those who share a
// solve, and returns when every goroutine has ended; orders that are under way are the
// buyer's. It may be called once.
func (s *Service) Run(ctx context.Context) error {
	var placers, sharers errgroup.Group
	placers.SetLimit(mostPlacers)
	sharers.SetLimit(mostShares)
	var duties sync.WaitGroup
	duties.Go(func() { s.keepRetiring(ctx) })
	duties.Go(func() { s.keepCounting(ctx) })
	duties.Go(func() { s.startShares(ctx, &sharers) })
	duties.Go(func() { s.keepLooking(ctx) })
	for ctx.Err() == nil {
		g := s.nextDue()
		if g == nil {
			select {
			case <-s.dueBell:
			case <-ctx.Done():
			}
			continue
		}
		placers.Go(func() error { // waits while as many are at work as may be
			s.contain(func() { s.place(ctx, g) })
			return nil
		})
	}
	duties.Wait()
	_ = placers.Wait()
	_ = sharers.Wait()
	return nil
}

func (s *Service) nextDue() *guest {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.due) == 0 {
		return nil
	}
	g := s.due[0]
	s.due = s.due[1:]
	return g
}

// keepLooking looks at what is asked for here, because an order can end at another
// replica without a word.
func (s *Service) keepLooking(ctx context.Context) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			s.mu.Lock()
			for _, g := range s.guests {
				s.kickLocked(g)
			}
			s.mu.Unlock()
		}
	}
}

// keepRetiring retires guests that nobody asks for any more, of all replicas.
func (s *Service) keepRetiring(ctx context.Context) {
	for ctx.Err() == nil {
		pause(ctx, retireEvery+rand.N(retireEvery/4)) //nolint:gosec // G404: nothing secret depends on it
		s.contain(func() {
			if _, err := s.list.Retire(ctx, s.hasTarget); err != nil {
				s.log.Debug("guests not retired", "err", err)
			}
		})
	}
}

// keepCounting writes the savings down, the last ones when ctx has ended.
func (s *Service) keepCounting(ctx context.Context) {
	for ctx.Err() == nil {
		pause(ctx, countEvery)
		s.writeCounts(context.WithoutCancel(ctx))
	}
}

func (s *Service) count(source pool.Source) {
	by := map[pool.Source]pool.SavingsSource{
		pool.FromPool: pool.SavedPool, FromSolve: pool.SavedSolve, pool.FromReplay: pool.SavedReplay,
	}[source]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[by]++
}

// writeCounts writes down what was counted; what cannot be written waits for the next
// time.
func (s *Service) writeCounts(ctx context.Context) {
	s.mu.Lock()
	counted := s.counts
	s.counts = map[pool.SavingsSource]int{}
	s.mu.Unlock()
	if len(counted) == 0 {
		return
	}
	err := s.savings.Count(ctx, maps.Clone(counted))
	if err == nil {
		return
	}
	s.log.Debug("savings not counted yet", "err", err)
	s.mu.Lock()
	defer s.mu.Unlock()
	for source, n := range counted {
		s.counts[source] += n
	}
}

// contain keeps a panic from ending the daemon.
func (s *Service) contain(do func()) {
	defer func() {
		if cause := recover(); cause != nil {
			s.log.Error("panic while seeing to a solve", "err", fmt.Sprint(cause), "stack", string(debug.Stack()))
		}
	}()
	do()
}
