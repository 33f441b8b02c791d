package ondemand

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"poold/internal/backoff"
	"poold/internal/captcha"
	"poold/internal/ondemand/dedup"
	"poold/internal/panics"
	"poold/internal/pool"
	"poold/internal/purchase"
)

// retireEvery, and up to a quarter later, is how often guests are retired.
const retireEvery = 5 * time.Second

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
	guests    *guests
	shares    *shares
	counter   *counter
	list      Guests
	hasTarget func(captcha.ID) bool
	log       *slog.Logger
}

// New makes a service that has started nothing.
func New(p Parts) *Service {
	gs := &guests{
		tokens: p.Tokens, list: p.Guests, buyer: p.Buyer, log: p.Log,
		refusals: refusals{of: map[captcha.ID]refusal{}}, dueBell: make(chan struct{}, 1), of: map[captcha.ID]*guest{},
	}
	c := &counter{savings: p.Savings, guests: p.Guests, log: p.Log, requests: map[dedup.SavingsSource]int{}}
	gs.uncounted = c.refusedGuest
	return &Service{
		guests: gs, counter: c, list: p.Guests, hasTarget: p.HasTarget, log: p.Log,
		shares: &shares{
			claims: p.Claims, tokens: p.Tokens, take: gs.take, count: c.count, log: p.Log,
			begunBell: make(chan struct{}, 1), stopped: make(chan struct{}), of: map[captcha.ID]*claimed{},
		},
	}
}

// Solve answers one request. It returns as soon as there is a token, else when the
// time-out has passed.
//
// Errors: those of pool.Tokens.Take, of which a *pool.EmptyError that is not Full says
// that the time-out has passed; *SolveError, *OutageError, *BudgetError. An
// order that was placed for the request stands, whatever the error.
func (s *Service) Solve(ctx context.Context, r Request) (pool.Token, error) {
	if r.Share != nil {
		token, err := s.shares.solveFor(ctx, r)
		if err != nil {
			s.counter.failed(err)
		}
		return token, err
	}
	token, err := s.guests.take(ctx, r)
	if err != nil {
		s.counter.failed(err)
		return pool.Token{}, err
	}
	if token.Source == pool.FromWait {
		token.Source = FromSolve
	}
	s.counter.count(token.Source)
	if token.Joined && r.Guest != nil {
		s.counter.joinedGuest()
	}
	return token, nil
}

// Kick says that something happened to an identity or to a claim. It never blocks for
// long, and one that nobody asks for is no error.
func (s *Service) Kick(id captcha.ID) {
	s.guests.kick(id)
	s.shares.kick(id)
}

// Ended takes notice of how an order of an identity without a target ended that another
// replica had placed and this one has adopted.
func (s *Service) Ended(id captcha.ID, r purchase.Result) { s.guests.adoptedEnded(id, r) }

// Run works until ctx ends, then places no more orders, sends away those who share a
// solve, and returns when every goroutine has ended; orders that are under way are the
// buyer's. It may be called once.
func (s *Service) Run(ctx context.Context) error {
	var parts sync.WaitGroup
	parts.Go(func() { s.guests.run(ctx) })
	parts.Go(func() { s.shares.run(ctx) })
	parts.Go(func() { s.keepRetiring(ctx) })
	parts.Wait()
	return nil
}

// KeepCounts writes down how requests ended until ctx ends, and then the rest. It should
// outlast the last request. It may be called once.
func (s *Service) KeepCounts(ctx context.Context) error {
	s.counter.run(ctx)
	return nil
}

// keepRetiring retires guests that nobody asks for any more, of all replicas.
func (s *Service) keepRetiring(ctx context.Context) {
	for ctx.Err() == nil {
		_ = backoff.Sleep(ctx, retireEvery+backoff.UpTo(retireEvery/4))
		_ = panics.Contain(s.log, faultMessage, func() {
			if _, err := s.list.Retire(ctx, s.hasTarget); err != nil {
				s.log.Debug("guests not retired", "err", err)
			}
		})
	}
}

// faultMessage is the log line of a panic in this package.
const faultMessage = "panic while seeing to a solve"

// ring signals without waiting.
func ring(bell chan struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}
