package ondemand

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"poold/internal/captcha"
	"poold/internal/ondemand/dedup"
	"poold/internal/panics"
	"poold/internal/pool"
	"poold/internal/purchase"
)

// retireEvery is the shortest interval between two removals of unused guests. The longest interval is
// a quarter longer.
const retireEvery = 5 * time.Second

// panicMessage is the log message of a panic in this package.
const panicMessage = "panic while serving a solve"

// Parts has the other components that a Service uses. All fields are required.
type Parts struct {
	Tokens  Tokens
	Guests  Guests
	Buyer   Buyer
	Claims  Claims
	Savings Savings
	// HasTarget reports whether an identity has a target. An identity with a target is not a guest.
	HasTarget func(captcha.ID) bool
	Log       *slog.Logger
}

// Service gets tokens for requests on demand. It is safe for concurrent use.
type Service struct {
	guests    *guests
	shares    *shares
	counter   *counter
	hasTarget func(captcha.ID) bool
	log       *slog.Logger
}

// New returns a service. It starts no goroutine; Run does the work.
func New(p Parts) *Service {
	c := &counter{savings: p.Savings, guests: p.Guests, log: p.Log, requests: map[dedup.SavingsSource]int{}}
	gs := &guests{
		tokens: p.Tokens, list: p.Guests, buyer: p.Buyer, counter: c, log: p.Log,
		due: newQueue[*guest](), of: map[captcha.ID]*guest{}, refusals: map[captcha.ID]refusal{},
	}
	return &Service{
		guests: gs, counter: c, hasTarget: p.HasTarget, log: p.Log,
		shares: &shares{
			claims: p.Claims, tokens: p.Tokens, take: gs.take, counter: c, log: p.Log,
			begun: newQueue[*share](), stopped: make(chan struct{}), of: map[captcha.ID]*share{},
		},
	}
}

// Solve returns a token for one request. It returns as soon as a token is available, and at the
// latest when the time-out of the request has passed.
//
// The error is one of the errors of pool.Tokens.Take, a *SolveError, an *OutageError or a
// *BudgetError. A *pool.EmptyError whose Full is false means that the time-out has passed. Even if
// Solve returns an error, an order that was placed for the request continues.
func (s *Service) Solve(ctx context.Context, r Request) (pool.Token, error) {
	if r.Share != nil {
		token, err := s.shares.solveFor(ctx, r)
		if err != nil {
			s.counter.countFailure(err)
		}
		return token, err
	}
	token, err := s.guests.take(ctx, r)
	if err != nil {
		s.counter.countFailure(err)
		return pool.Token{}, err
	}
	if token.Source == pool.FromWait {
		token.Source = FromSolve
	}
	s.counter.count(token.Source)
	if token.Joined && r.Guest != nil {
		s.counter.countGuests(0, 1)
	}
	return token, nil
}

// Wake reports an event of an identity or of a claim. It is a no-op for an unknown id, and never blocks
// for long.
func (s *Service) Wake(id captcha.ID) {
	s.guests.wake(id)
	s.shares.wake(id)
}

// Ended reports the end of an order that another replica placed and this replica adopted. The identity
// of the order has no target.
func (s *Service) Ended(id captcha.ID, r purchase.Result) { s.guests.handleAdoptedEnd(id, r) }

// Run places orders and solves for claims until ctx ends. After that it places no more orders, ends the
// waits for shared solves, and returns when every goroutine has ended. The buyer finishes the orders in
// flight. Run must be called at most once.
func (s *Service) Run(ctx context.Context) error {
	var parts sync.WaitGroup
	parts.Go(func() { s.guests.run(ctx) })
	parts.Go(func() { s.shares.run(ctx) })
	parts.Go(func() { s.keepRetiring(ctx) })
	parts.Wait()
	return nil
}

// KeepCounts writes the counts of requests until ctx ends, and a last time after that. Its ctx should
// end after the last request, so that no count is lost. KeepCounts must be called at most once.
func (s *Service) KeepCounts(ctx context.Context) error {
	s.counter.run(ctx)
	return nil
}

// keepRetiring periodically removes the guests that no replica uses any more.
func (s *Service) keepRetiring(ctx context.Context) {
	for ctx.Err() == nil {
		pause(ctx, retireEvery+rand.N(retireEvery/4)) //nolint:gosec // G404: nothing secret depends on it
		_ = panics.Contain(s.log, panicMessage, func() {
			if _, err := s.guests.list.Retire(ctx, s.hasTarget); err != nil {
				s.log.Debug("guests not retired; the next round tries again", "err", err)
			}
		})
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
