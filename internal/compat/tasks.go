package compat

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"math/big"
	"sync"
	"time"

	"poold/internal/captcha"
	"poold/internal/ondemand"
	"poold/internal/pool"
)

const (
	// guestWait limits the wait of a guest's task. The wait of callers of POST /solve has the same limit.
	guestWait = 300 * time.Second
	// targetWait limits the wait of a target's task to the life of its record.
	targetWait = 15 * time.Minute
)

// Stock is the stock of tokens; *pool.Tokens implements it.
type Stock interface {
	Take(ctx context.Context, r pool.Request) (pool.Token, error)
	Look(ctx context.Context, id captcha.ID, margin, lead time.Duration) (pool.Stock, error)
	Repeat(ctx context.Context, id captcha.ID, idempotency, caller string) (token pool.Token, known bool, err error)
	TokenID(ctx context.Context, order, caller string) (string, error)
}

// Solver buys tokens for guests; *ondemand.Service implements it.
type Solver interface {
	Solve(ctx context.Context, r ondemand.Request) (pool.Token, error)
}

// Terms describes how a task takes its token.
type Terms struct {
	Take pool.Request // the type Tasks sets the fields Wait, Idempotency and Parked
	// Guest describes the purchase for an identity without a target. Guest is nil if the identity has
	// a target, or if the submission has already placed the order.
	Guest *ondemand.Guest
	// Supply reports whether tokens can be bought for the target; nil for a guest.
	Supply Supply
	// Hold reserves resources of the task, such as memory for a picture. After the end of the task,
	// the function release is called. If Hold is nil, the task needs no resources.
	Hold func() (release func())
}

// Supply reports whether tokens can be bought for a target.
type Supply interface {
	// Out reports whether the stock is empty and no token can come now.
	Out(ctx context.Context) bool
	// Attend changes a request so that the wait ends when no token can come any more. The argument ctx
	// is the context of the wait.
	Attend(ctx context.Context, r *pool.Request)
}

// Tasks manages the tasks of the compatible endpoints. The type Tasks is safe for concurrent use.
type Tasks struct {
	records *Records
	stock   Stock
	solver  Solver
	log     *slog.Logger

	working context.Context //nolint:containedctx // the waiters use this context and outlive the calls that start the waiters
	stop    context.CancelFunc
	waiters sync.WaitGroup

	mu      sync.Mutex
	waiting map[string]*waiter // key: number of the task
	closed  bool               // Run is stopping, so no task may begin to wait
}

// New returns Tasks without any task. New starts no goroutine.
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
	Made     time.Time // time of the submission, on Redis' clock
}

// Submit creates a task and returns its number. When Submit returns, a guest's task waits for its
// token. A target's task waits if the stock is empty. If a task cannot wait, Submit returns the
// cause.
func (t *Tasks) Submit(ctx context.Context, task Task, terms Terms) (number string, err error) {
	task.Guest = terms.Guest != nil
	waits := task.Guest
	if !waits {
		stock, err := t.stock.Look(ctx, task.Identity, terms.Take.Margin, 0)
		if err != nil {
			return "", err
		}
		// Callers that already wait get the fresh tokens first.
		if waits = stock.Fresh <= stock.Waiting; waits && terms.Supply.Out(ctx) {
			return "", NoSlot
		}
	}
	for fresh := false; !fresh; {
		number = newNumber()
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
	w, err := t.begin(number, task, terms, false) //nolint:contextcheck // the wait of the task outlives the call
	if err != nil {
		return "", err
	}
	if err = w.awaitTicket(ctx, patience); err != nil && !errors.Is(err, NotReady) {
		return "", err
	}
	return number, nil
}

func newNumber() string {
	n, _ := rand.Int(rand.Reader, big.NewInt(9e10)) // rand.Reader never fails
	return n.Add(n, big.NewInt(1e10)).String()
}

// idempotency returns the Idempotency-Key of a task's take. The key contains a zero byte and
// therefore differs from every key that a caller sends, because callers' keys are printable.
func idempotency(caller, number string) string { return caller + "\x00task\x00" + number }

// Poll returns the token of a task. If Poll must start the take, it calls the function terms. From
// the second delivery on, the source of the token is "replay". The error is a Cause, such as
// NotReady, or an error that CauseOf maps to a Cause.
func (t *Tasks) Poll(ctx context.Context, number, caller string, terms func(Task) (Terms, error)) (Result, error) {
	state, known, err := t.records.Visit(ctx, number, caller)
	switch {
	case err != nil:
		return Result{}, err
	case !known:
		return Result{}, UnknownTask
	case state.Failed != "":
		return Result{}, failure(state.Failed)
	case state.Order != "" || !state.HeldHere:
		return t.repeat(ctx, number, state)
	}
	w := t.find(number)
	if w == nil {
		if w, err = t.take(ctx, number, state, terms); err != nil {
			return Result{}, err
		}
	}
	token, err := w.await(ctx)
	if CauseOf(err) == Stopping {
		err = NotReady // another replica continues
	}
	return Result{Token: token, Identity: state.Identity, Type: state.Type, Made: state.Made}, err
}

// repeat returns the token of a task that already got its token or that another replica holds.
func (t *Tasks) repeat(ctx context.Context, number string, state TaskState) (Result, error) {
	token, there, err := t.stock.Repeat(ctx, state.Identity, idempotency(state.Caller, number), state.Caller)
	switch {
	case err != nil:
		return Result{}, err
	case !there && state.Order == "":
		return Result{}, NotReady // another replica waits for the token
	case !there:
		return Result{}, UnknownTask // the task's token has expired
	}
	if state.PollsSinceEnd == 1 {
		token.Source = pool.FromWait // this is the first poll since the token landed
		if state.Guest {
			token.Source = ondemand.FromSolve
		}
	}
	return Result{Token: token, Identity: state.Identity, Type: state.Type, Made: state.Made}, nil
}

// take starts the take for a task that has no waiter at this replica.
func (t *Tasks) take(ctx context.Context, number string, state TaskState, terms func(Task) (Terms, error)) (*waiter, error) {
	on, err := terms(state.Task)
	if err == nil && on.Supply != nil && on.Supply.Out(ctx) {
		err = NoSlot // no take begins, so the figures count no request
	}
	if err != nil {
		t.release(number) //nolint:contextcheck // release must run even if the caller hung up
		return nil, err
	}
	on.Take.Wait = state.Left
	w, err := t.begin(number, state.Task, on, true) //nolint:contextcheck // the wait of the task outlives the call
	if err != nil {
		t.release(number) //nolint:contextcheck // another replica may have room
	}
	return w, err
}

// Report returns the record and the token id of a task, for a report on the token.
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
	token, err = t.stock.TokenID(ctx, state.Order, caller)
	return state, token, err
}

// The values of a record's field `failed`.
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
