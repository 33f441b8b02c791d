package compat

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"sync"
	"time"

	"poold/internal/captcha"
	"poold/internal/ondemand"
	"poold/internal/pool"
)

// guestWait is how long a guest's solve is waited for, as long as a caller of POST /solve
// can wait.
const guestWait = 300 * time.Second

// targetWait is how long a target's task waits: as long as its record lives.
const targetWait = 15 * time.Minute

// Stock hands out; *pool.Tokens implements it.
type Stock interface {
	Take(ctx context.Context, r pool.Request) (pool.Token, error)
	Look(ctx context.Context, id captcha.ID, margin, lead time.Duration) (pool.Stock, error)
	Repeat(ctx context.Context, id captcha.ID, idempotency, caller string) (token pool.Token, known bool, err error)
	Name(ctx context.Context, order, caller string) (string, error)
}

// Solver sees to guests; *ondemand.Service implements it.
type Solver interface {
	Solve(ctx context.Context, r ondemand.Request) (pool.Token, error)
}

// Terms are those on which a task takes now.
type Terms struct {
	Take pool.Request // but for Wait, Idempotency and Parked
	// Guest is what is bought where no target has the identity; nil = a target has it, or
	// the order of the guest was placed at its submit.
	Guest *ondemand.Guest
	// Supply knows whether a token can come for a target; nil of a guest.
	Supply Supply
	// Hold keeps what the task needs, such as its picture's room, until the returned
	// function is called; nil = it needs nothing.
	Hold func() (release func())
}

// Supply knows whether tokens can be bought for a target.
type Supply interface {
	// Out reports whether there is no token, and none can come now.
	Out(ctx context.Context) bool
	// Attend ends the wait of a request when no token can come for it. ctx is the wait's.
	Attend(ctx context.Context, r *pool.Request)
}

// Tasks are those of the compatible endpoints. It is safe for concurrent use.
type Tasks struct {
	records *Records
	stock   Stock
	solver  Solver
	log     *slog.Logger

	working context.Context //nolint:containedctx // of the goroutines that wait for tokens, beyond the calls that begin them
	stop    context.CancelFunc
	waiters sync.WaitGroup

	mu      sync.Mutex
	waiting map[string]*waiter // by number
	closed  bool               // nobody may begin to wait
}

// New makes it; nothing runs yet.
func New(records *Records, stock Stock, solver Solver, log *slog.Logger) *Tasks {
	working, stop := context.WithCancel(context.Background())
	return &Tasks{
		records: records, stock: stock, solver: solver, log: log,
		working: working, stop: stop, waiting: map[string]*waiter{},
	}
}

// Result is a solved task.
type Result struct {
	Token    pool.Token
	Identity captcha.ID
	Type     captcha.Type
	Made     time.Time // when it was submitted, on Redis' clock
}

// Submit makes a task and returns its number. Where it must wait or be bought that has
// begun when it returns; where that cannot be, the error says why and there is no task. If
// ctx ends while it finds that out, it returns the number beside the error of ctx.
func (t *Tasks) Submit(ctx context.Context, task Task, terms Terms) (number string, err error) {
	task.Guest = terms.Guest != nil
	waits := task.Guest
	if !waits {
		stock, err := t.stock.Look(ctx, task.Identity, terms.Take.Margin, 0)
		if err != nil {
			return "", err
		}
		// Those who wait are served before.
		if waits = stock.Fresh <= stock.Waiting; waits && terms.Supply.Out(ctx) {
			return "", NoSlot
		}
	}
	for fresh := false; !fresh; {
		if number, err = newNumber(); err != nil {
			return "", err
		}
		if fresh, err = t.records.Make(ctx, number, task, waits); err != nil {
			return "", err
		}
	}
	if !waits {
		return number, nil
	}
	terms.Take.Wait = targetWait
	var patience time.Duration
	if task.Guest {
		terms.Take.Wait, patience = guestWait, refusalPatience
	}
	w, err := t.begin(number, task, terms, false) //nolint:contextcheck // its wait outlives the call
	if err != nil {
		return "", err
	}
	err = w.began(ctx, patience)
	switch {
	case err == nil, errors.Is(err, NotReady):
		return number, nil
	case ctx.Err() != nil:
		return number, err
	}
	return "", err
}

// Open reports whether a task of the caller has not failed and can still be polled.
func (t *Tasks) Open(ctx context.Context, number, caller string) (bool, error) {
	state, known, err := t.records.Look(ctx, number, caller)
	return known && state.Failed == "", err
}

// newNumber draws a number of 11 digits.
func newNumber() (string, error) {
	n, err := rand.Int(rand.Reader, big.NewInt(9e10))
	if err != nil {
		return "", fmt.Errorf("drawing a number: %w", err)
	}
	return n.Add(n, big.NewInt(1e10)).String(), nil
}

// idempotency is the key of a task's take. No caller's own can be the same: these are
// printable.
func idempotency(caller, number string) string { return caller + "\x00task\x00" + number }

// Poll asks for the token of a task. terms are asked for where it is to be taken now. Each
// but the first one that tells a token has the source replay. The error is a Cause
// (NotReady, UnknownTask, ...) or what CauseOf knows.
func (t *Tasks) Poll(ctx context.Context, number, caller string, terms func(Task) (Terms, error)) (Result, error) {
	state, known, err := t.records.Visit(ctx, number, caller)
	switch {
	case err != nil:
		return Result{}, err
	case !known:
		return Result{}, UnknownTask
	case state.Failed != "":
		return Result{}, failure(state.Failed)
	case state.Order != "" || !state.Mine:
		return t.repeat(ctx, number, state)
	}
	w := t.find(number)
	if w == nil {
		if w, err = t.take(ctx, number, state, terms); err != nil {
			return Result{}, err
		}
	}
	token, err := w.hear(ctx)
	if CauseOf(err) == Stopping {
		err = NotReady // another replica goes on
	}
	return Result{Token: token, Identity: state.Identity, Type: state.Type, Made: state.Made}, err
}

// repeat tells what a task got, where another replica or an earlier moment saw to it.
func (t *Tasks) repeat(ctx context.Context, number string, state TaskState) (Result, error) {
	token, there, err := t.stock.Repeat(ctx, state.Identity, idempotency(state.Caller, number), state.Caller)
	switch {
	case err != nil:
		return Result{}, err
	case !there && state.Order == "":
		return Result{}, NotReady // the other replica waits
	case !there:
		return Result{}, UnknownTask // its token is dead
	}
	if state.Told == 1 {
		token.Source = pool.FromWait // it landed before anybody asked
		if state.Guest {
			token.Source = ondemand.FromSolve
		}
	}
	return Result{Token: token, Identity: state.Identity, Type: state.Type, Made: state.Made}, nil
}

// take begins to take for a task that nobody waits for.
func (t *Tasks) take(ctx context.Context, number string, state TaskState, terms func(Task) (Terms, error)) (*waiter, error) {
	on, err := terms(state.Task)
	if err == nil && on.Supply != nil && on.Supply.Out(ctx) {
		err = NoSlot // and nobody asked for a token
	}
	if err != nil {
		t.letGo(number) //nolint:contextcheck // also where its caller has gone
		return nil, err
	}
	on.Take.Wait = state.Left
	return t.begin(number, state.Task, on, true) //nolint:contextcheck // its wait outlives the call
}

// Report says which token a caller's task got, so that it can be reported on.
func (t *Tasks) Report(ctx context.Context, number, caller string) (state TaskState, token string, err error) {
	state, known, err := t.records.Look(ctx, number, caller)
	switch {
	case err != nil:
		return state, "", err
	case !known:
		return state, "", UnknownTask
	case state.Order == "":
		return state, "", NotReported
	}
	token, err = t.stock.Name(ctx, state.Order, caller)
	return state, token, err
}

// How a record says that a task failed.
const (
	failedUnsolvable = "unsolvable"
	failedRefused    = "refused"
)

func failure(how string) Cause {
	if how == failedRefused {
		return Refused
	}
	return Unsolvable
}
