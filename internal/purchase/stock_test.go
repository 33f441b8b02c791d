package purchase

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/permits"
	"poold/internal/pool"
	"poold/internal/pool/pooltest"
	"poold/internal/redisdb"
	"poold/internal/redisdb/redistest"
)

// testRedis is the Redis of a test, with the faults that the test injects. All replicas of the test
// share it.
type testRedis struct {
	*ledger
	t     *testing.T
	redis *redistest.Bubble

	mu sync.Mutex
	// fault is called before each step. If it returns an error, the step fails without
	// being executed. Steps that only read or renew have names such as "look permits".
	fault func(step string) error
	// lostReply is called after each step. An error from this function replaces the step's answer.
	lostReply func(step string) error
	placed    map[pool.Ref]pool.Order // orders as the buyers placed them
	landings  []pool.Landing          // landings that the settle script executed
	second    *pooltest.Store         // another replica; see the method other
}

// stock is the store of one replica, with the real scripts. It records the steps in the ledger, and
// injects the faults of the test.
type stock struct {
	*testRedis
	*pooltest.Store
}

const testPrefix = "test"

func newTestRedis(t *testing.T, l *ledger) *testRedis {
	t.Helper()
	return &testRedis{ledger: l, t: t, redis: redistest.InBubble(t), placed: map[pool.Ref]pool.Order{}}
}

// open opens the store of another replica.
func (w *testRedis) open(ended func(pool.Ref, string)) *pooltest.Store {
	w.t.Helper()
	s, err := pooltest.Open(pool.Options{
		Addresses: "redis://bubble", Prefix: testPrefix, Log: quiet(), Dial: w.redis.Dial, OnEnded: ended,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = s.Close() })
	return s
}

// other returns the store of a second replica, which has no buyer.
func (w *testRedis) other() *pooltest.Store {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.second == nil {
		w.second = w.open(nil)
	}
	return w.second
}

// change lets a test change the faults while calls are in flight.
func (w *testRedis) change(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do()
}

// failSteps makes each step fail whose name begins with one of the given prefixes.
func (w *testRedis) failSteps(names ...string) {
	w.change(func() {
		w.fault = func(step string) error {
			for _, name := range names {
				if strings.HasPrefix(step, name) {
					return redisdb.ErrDown
				}
			}
			return nil
		}
	})
}

// injectedFault calls one of the fault functions for a step and returns its error.
func (w *testRedis) injectedFault(which *func(string) error, step string) error {
	w.mu.Lock()
	ask := *which
	w.mu.Unlock()
	if ask == nil {
		return nil
	}
	return ask(step)
}

// runStep executes a step and applies the injected faults.
func runStep[T any](w *testRedis, step string, do func() (T, error)) (answer T, err error) {
	var none T
	if err := w.injectedFault(&w.fault, step); err != nil {
		return none, err
	}
	if !strings.HasPrefix(step, "look") {
		w.add("%s", step)
	}
	answer, err = do()
	if lost := w.injectedFault(&w.lostReply, step); lost != nil {
		return none, lost
	}
	return answer, err
}

// runLimitedStep is runStep for a step for which the buyer must set a time limit.
func runLimitedStep[T any](ctx context.Context, w *testRedis, step string, do func() (T, error)) (T, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		w.t.Errorf("%s is a step without a limit", step)
	}
	return runStep(w, step, do)
}

// withoutAnswer converts a step that returns only an error to the form that runStep needs.
func withoutAnswer(do func() error) func() (struct{}, error) {
	return func() (struct{}, error) { return struct{}{}, do() }
}

func (s *stock) Acquire(ctx context.Context, name string, order pool.Ref, limit int, ttl, answered time.Duration) (permits.Permit, error) {
	return runLimitedStep(ctx, s.testRedis, "reserve", func() (permits.Permit, error) {
		return s.Store.Acquire(ctx, name, order, limit, ttl, answered)
	})
}

func (s *stock) ReleaseUnplaced(ctx context.Context, name string, order pool.Ref) error {
	_, err := runLimitedStep(ctx, s.testRedis, "release", withoutAnswer(func() error { return s.Store.ReleaseUnplaced(ctx, name, order) }))
	return err
}

func (s *stock) Standing(ctx context.Context, name string) (permits.Standing, error) {
	return runLimitedStep(ctx, s.testRedis, "look standing", func() (permits.Standing, error) { return s.Store.Standing(ctx, name) })
}

func (s *stock) Release(ctx context.Context, name string, order pool.Ref) error {
	release := withoutAnswer(func() error { return s.Store.Release(ctx, name, order) })
	if _, bounded := ctx.Deadline(); !bounded {
		_, err := runStep(s.testRedis, "look sweep", release)
		return err
	}
	_, err := runStep(s.testRedis, "release", release)
	return err
}

func (s *stock) Holders(ctx context.Context, name string) ([]pool.Ref, error) {
	return runStep(s.testRedis, "look places", func() ([]pool.Ref, error) { return s.Store.Holders(ctx, name) })
}

func (s *stock) InFlight(ctx context.Context, names []string) ([]int, error) {
	return runLimitedStep(ctx, s.testRedis, "inflight", func() ([]int, error) { return s.Store.InFlight(ctx, names) })
}

func (s *stock) Book(ctx context.Context, of pool.Budget, order pool.Ref, caps pool.Caps, notAfter pool.RedisTime) (time.Duration, error) {
	return runLimitedStep(ctx, s.testRedis, budgetStep("book", of), func() (time.Duration, error) {
		return s.Store.Book(ctx, of, order, caps, notAfter)
	})
}

func (s *stock) Refund(ctx context.Context, of pool.Budget, order pool.Ref) error {
	_, err := runLimitedStep(ctx, s.testRedis, budgetStep("refund", of), withoutAnswer(func() error { return s.Store.Refund(ctx, of, order) }))
	return err
}

// budgetStep returns the name of a step in a shared budget.
func budgetStep(step string, of pool.Budget) string {
	if of == pool.Overall {
		return step
	}
	return step + " of " + string(of)
}

func (s *stock) Booked(ctx context.Context, of pool.Budget) (hour, day int, err error) {
	used, err := runStep(s.testRedis, "look booked", func() (used [2]int, err error) {
		used[0], used[1], err = s.Store.Booked(ctx, of)
		return used, err
	})
	return used[0], used[1], err
}

func (s *stock) Place(ctx context.Context, o pool.Order) (pool.Placing, error) {
	return runLimitedStep(ctx, s.testRedis, "place", func() (pool.Placing, error) {
		s.change(func() { s.placed[o.Ref] = o })
		return s.Store.Place(ctx, o)
	})
}

func (s *stock) MarkSubmitting(ctx context.Context, order pool.Ref) (bool, error) {
	return runLimitedStep(ctx, s.testRedis, "mark", func() (bool, error) { return s.Store.MarkSubmitting(ctx, order) })
}

func (s *stock) ClaimTask(ctx context.Context, name, task string, order pool.Ref, ttl time.Duration) (bool, error) {
	return runLimitedStep(ctx, s.testRedis, "claim "+task, func() (bool, error) { return s.Store.ClaimTask(ctx, name, task, order, ttl) })
}

func (s *stock) Submitted(ctx context.Context, order pool.Ref, task string) (bool, error) {
	return runLimitedStep(ctx, s.testRedis, "store "+task, func() (bool, error) { return s.Store.Submitted(ctx, order, task) })
}

func (s *stock) Unknown(ctx context.Context, order pool.Ref, hold time.Duration) (bool, error) {
	return runLimitedStep(ctx, s.testRedis, "unknown", func() (bool, error) { return s.Store.Unknown(ctx, order, hold) })
}

func (s *stock) Settle(ctx context.Context, l pool.Landing) (pool.EndResult, error) {
	return runLimitedStep(ctx, s.testRedis, "settle", func() (pool.EndResult, error) {
		how, err := s.Store.Settle(ctx, l)
		if err == nil && how == pool.Ended {
			s.change(func() { s.landings = append(s.landings, l) })
		}
		return how, err
	})
}

func (s *stock) Fail(ctx context.Context, f pool.Failure) (pool.EndResult, error) {
	return runLimitedStep(ctx, s.testRedis, fmt.Sprintf("fail bought=%v", f.Bought), func() (pool.EndResult, error) { return s.Store.Fail(ctx, f) })
}

func (s *stock) Find(ctx context.Context, order pool.Ref) (pool.Record, bool, error) {
	type answer struct {
		r     pool.Record
		there bool
	}
	a, err := runLimitedStep(ctx, s.testRedis, "look find", func() (a answer, err error) {
		a.r, a.there, err = s.Store.Find(ctx, order)
		return a, err
	})
	return a.r, a.there, err
}

func (s *stock) FindAll(ctx context.Context, orders []pool.Ref) ([]pool.Record, error) {
	return runStep(s.testRedis, "look find", func() ([]pool.Record, error) { return s.Store.FindAll(ctx, orders) })
}

func (s *stock) Adopt(ctx context.Context, id captcha.ID, orders []string) ([]pool.Record, []pool.Ref, error) {
	type answer struct {
		adopted []pool.Record
		gone    []pool.Ref
	}
	a, err := runStep(s.testRedis, "look adopt", func() (a answer, err error) {
		a.adopted, a.gone, err = s.Store.Adopt(ctx, id, orders)
		return a, err
	})
	return a.adopted, a.gone, err
}

func (s *stock) Renew(ctx context.Context, orders []pool.Ref) ([]pool.Ref, error) {
	return runStep(s.testRedis, "look renew", func() ([]pool.Ref, error) { return s.Store.Renew(ctx, orders) })
}

func (s *stock) ReleaseLeases(ctx context.Context, orders []pool.Ref) error {
	_, err := runLimitedStep(ctx, s.testRedis, "let go", withoutAnswer(func() error { return s.Store.ReleaseLeases(ctx, orders) }))
	return err
}

// loseAnswer returns a fault function that loses the answer of one step.
func loseAnswer(step string, err error) func(string) error {
	return func(s string) error {
		if s == step {
			return err
		}
		return nil
	}
}
