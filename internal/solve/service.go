package solve

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"poold/internal/backoff"
	"poold/internal/captcha"
	"poold/internal/claims"
	"poold/internal/panics"
	"poold/internal/pool"
	"poold/internal/purchase"
)

// MostWaiting limits the callers of POST /solve that wait for one identity, over all replicas.
const MostWaiting = 500

const (
	// mostPictures limits the pictures for which this replica buys at a time.
	mostPictures = 1024
	// lookEvery is the interval at which a replica tries to order a picture that has no order.
	lookEvery = 250 * time.Millisecond
	// outFirst and outMost are the first and the longest pause before a check whether a token can still come.
	outFirst, outMost = 250 * time.Millisecond, 2 * time.Second
)

// Refiller places orders for the tickets of a guest until release is called.
type Refiller interface {
	Guest(s purchase.Spec) (release func())
}

// Config has the parts that a Solver uses. All are required.
type Config struct {
	Pool *pool.Pool
	// Buy carries the order for a picture from its placing to its end, as purchase.Buyer.Buy does.
	Buy      func(ctx context.Context, s purchase.Spec, tried func(next captcha.ID, err error))
	Refiller Refiller
	Claims   *claims.Claims
	Log      *slog.Logger
}

// Solver gets tokens on demand. It is safe for concurrent use.
type Solver struct {
	Config

	pictures chan func(ctx context.Context) // each buys for one
	limit    *Semaphore                     // of pictures in flight
	stopped  chan struct{}                  // closed when Run ends

	mu     sync.Mutex
	shares map[captcha.ID]*share // for which callers wait
}

// New returns a Solver. It starts no goroutine; Run buys pictures.
func New(c Config) *Solver {
	return &Solver{
		Config: c, pictures: make(chan func(context.Context)), limit: NewSemaphore(mostPictures),
		stopped: make(chan struct{}), shares: map[captcha.ID]*share{},
	}
}

// Request asks for one token.
type Request struct {
	Caller string // as in Semaphore
	// Call describes the take; Identify sets its name. Call.Wait is the timeout of the request.
	Call *pool.Call
	// Guest describes the purchase for an identity without a target; nil = the identity has a target. Its ID and Call.ID
	// are pool.Guest of the identity's ID, its Depth is 0, its Horizon is the margin, and its Guest is true.
	Guest *purchase.Spec
	// Share names the claim of requests that share a solve; nil = this request does not share.
	Share *Share
	// Rate limits the requests for all guests.
	Rate pool.Rate
	// Out reports that a target has neither tokens nor orders, and that nothing can be bought for it now. Then the wait
	// ends. If Out is nil, only the timeout ends the wait.
	Out func(ctx context.Context) bool
}

// Identify names a call. With an Idempotency-Key the name is derived from it and from the caller, so that a repeated
// request gets the same answer at every replica. A different request with the same key is a conflict. For a shared
// solve, the caller is "".
func Identify(call *pool.Call, caller, key string) {
	call.Nonce = rand.Text()
	call.Name = call.Nonce
	if key != "" {
		call.Name = hash(caller, key)
		call.Fingerprint = hash(string(call.ID), call.MinTTL.String())
	}
}

// hash returns a hash of two texts, which also depends on where the first one ends.
func hash(a, b string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d:%s%s", len(a), a, b))
	return hex.EncodeToString(sum[:16])
}

// Solve returns a token for one request to POST /solve, and counts the request. Solve returns as soon as there is a
// token, and at the latest after Call.Wait. An order that was placed for the request continues after that.
//
// The error is one that pool.Admit or pool.Take returns. A *pool.EmptyError whose Full is false means that the timeout
// has passed, or that Request.Out has ended the wait.
func (s *Solver) Solve(ctx context.Context, r Request) (pool.Token, error) {
	var got outcome
	if r.Share != nil {
		got = s.share(ctx, r)
	} else {
		got.token, got.err = s.Take(ctx, r)
	}
	s.count(ctx, got)
	return got.token, got.err
}

// Take works like Solve, but does not count the request. It serves targets with `on_empty: solve`.
func (s *Solver) Take(ctx context.Context, r Request) (pool.Token, error) {
	if r.Guest != nil {
		if err := s.Pool.Admit(ctx, r.Call, r.Rate); err != nil {
			return pool.Token{}, err
		}
		release, err := s.Supply(ctx, r.Caller, r.Guest, false, func() {})
		if err != nil {
			return pool.Token{}, err
		}
		defer release()
	}
	token, err := s.Await(ctx, r)
	if err != nil && ctx.Err() != nil {
		err = ctx.Err() // the caller hung up, whatever the exchange with Redis says
	}
	if token.Source == pool.FromWait {
		token.Source = pool.FromSolve
	}
	return token, err
}

// Await takes a token, and ends the wait when no token can come any more.
func (s *Solver) Await(ctx context.Context, r Request) (pool.Token, error) {
	if r.Out == nil || r.Call.Wait == 0 {
		return s.Pool.Take(ctx, r.Call)
	}
	waiting, stop := context.WithCancel(ctx)
	ends := make(chan struct{})
	r.Call.Ends = ends
	var watch sync.WaitGroup
	defer watch.Wait()
	defer stop()
	watch.Go(func() {
		// The wait ends only after two such checks in a row, because at the first one this caller's own token may just have
		// left the stock.
		for pause, out := outFirst, 0; out < 2; {
			if backoff.Sleep(waiting, pause) != nil {
				return
			}
			if r.Out(waiting) {
				pause, out = outFirst, out+1
			} else {
				pause, out = min(2*pause, outMost), 0
			}
		}
		close(ends)
	})
	return s.Pool.Take(ctx, r.Call)
}

// picturePatience is how long a replica tries to place an order for a picture.
const picturePatience = 5 * time.Minute

// Supply arranges that orders are placed for the ticket of a guest. For a picture, this replica places the orders until
// release is called. For a client task, whose ticket must exist, it places only one order. The function done is
// called when the bytes of the picture are no longer needed.
func (s *Solver) Supply(ctx context.Context, caller string, spec *purchase.Spec, task bool,
	done func()) (release func(), err error) {
	if spec.Image == nil {
		done()
		return s.Refiller.Guest(*spec), nil
	}
	leave, ok := s.limit.Take(caller)
	if !ok {
		done()
		return nil, &pool.EmptyError{Full: true}
	}
	gone := make(chan struct{})
	order := func(ctx context.Context) {
		defer leave()
		defer done()
		s.buy(ctx, *spec, task, gone)
	}
	select {
	case s.pictures <- order:
		return sync.OnceFunc(func() { close(gone) }), nil
	case <-s.stopped:
		err = pool.ErrClosed
	case <-ctx.Done():
		err = ctx.Err()
	}
	leave()
	done()
	return nil, err
}

// Run buys pictures until ctx ends. It returns when the Buyer has ended the orders or left them to other replicas,
// and then ends the shared solves. Run must be called exactly once.
func (s *Solver) Run(ctx context.Context) error {
	var orders sync.WaitGroup // at most mostPictures: each has a place
	defer orders.Wait()
	defer close(s.stopped)
	for {
		select {
		case <-ctx.Done():
			return nil
		case order := <-s.pictures:
			orders.Go(func() { _ = panics.Contain(s.Log, "panic while buying for a picture", func() { order(ctx) }) })
		}
	}
}

// buy places an order for a picture whenever a ticket has neither a token nor an order, until the caller is gone. For a
// client task it places one order, unless the ticket is gone.
func (s *Solver) buy(ctx context.Context, spec purchase.Spec, task bool, gone <-chan struct{}) {
	until, pause, placed := time.Now().Add(picturePatience), 10*time.Millisecond, false // the ticket comes in a moment
	for time.Now().Before(until) {
		select {
		case <-ctx.Done():
			return
		case <-gone:
			return
		case <-time.After(pause):
		}
		pause = lookEvery
		c, err := s.Pool.Counts(ctx, pool.Query{ID: spec.ID, Margin: spec.Margin})
		served := c.Waiting <= c.Fresh+c.Orders
		switch {
		case err != nil:
		case task && (c.Waiting == 0 || placed && served): // the client of a task may never poll
			return
		case !served:
			s.Buy(ctx, spec, func(_ captcha.ID, err error) { placed = placed || err == nil })
		}
	}
}
