package compat

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"poold/internal/captcha"
	"poold/internal/ondemand"
	"poold/internal/pool"
	"poold/internal/pool/pooltest"
	"poold/internal/redisdb"
	"poold/internal/redisdb/redistest"
)

func TestMain(m *testing.M) {
	redis.SetLogger(discardLogger{})
	goleak.VerifyTestMain(m)
}

type discardLogger struct{}

func (discardLogger) Printf(context.Context, string, ...any) {}

const (
	caller = "key\x00tests\x00"
	target = captcha.ID("0123456789abcdef0123456789abcdef")
)

var targetTask = Task{Caller: caller, Identity: target, Type: captcha.Turnstile}

// supply is a Supply whose results a test sets.
type supply struct {
	out  atomic.Bool
	over chan struct{} // closed: no token can come for pending requests
}

func (s *supply) Out(context.Context) bool { return s.out.Load() }

func (s *supply) Attend(_ context.Context, r *pool.Request) { r.Over = s.over }

type solverFunc func(ctx context.Context, r ondemand.Request) (pool.Token, error)

func (f *solverFunc) Solve(ctx context.Context, r ondemand.Request) (pool.Token, error) {
	return (*f)(ctx, r)
}

type replica struct {
	*Tasks

	t      *testing.T
	bubble *redistest.Bubble
	store  *pooltest.Store
	solver solverFunc
	supply *supply
	stop   func() // stops the replica as SIGTERM does
	orders int
}

// start starts a replica that stops when the test ends.
func start(t *testing.T, bubble *redistest.Bubble) *replica {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	store, err := pooltest.Open(pool.Options{Addresses: "redis://embedded", Prefix: "captcha", Dial: bubble.Dial, Log: log, Probe: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	r := &replica{t: t, bubble: bubble, store: store, supply: &supply{over: make(chan struct{})}}
	r.Tasks = New(NewRecords(store.DB), store.Tokens, &r.solver, log)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = store.Run(ctx) })
	running.Go(func() { _ = r.Run(ctx) })
	r.stop = sync.OnceFunc(func() {
		store.EndWaits()
		cancel()
		running.Wait()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(r.stop)
	return r
}

func (r *replica) terms(Task) (Terms, error) {
	return Terms{Take: pool.Request{ID: target, Margin: 10 * time.Second, Caller: caller, MaxWaiting: 20}, Supply: r.supply}, nil
}

func (r *replica) submit() string {
	r.t.Helper()
	on, _ := r.terms(Task{})
	number, err := r.Submit(r.t.Context(), targetTask, on)
	if err != nil || len(number) != 11 || strings.Trim(number, "0123456789") != "" || number[0] == '0' {
		r.t.Fatalf("the submit: %q, %v", number, err)
	}
	return number
}

// poll polls a task and checks the outcome: the wanted cause, or a token if the argument want is nil.
func (r *replica) poll(number string, want error) pool.Token {
	r.t.Helper()
	got, err := r.Poll(r.t.Context(), number, caller, r.terms)
	if !errors.Is(err, want) || want == nil && (got.Token.Value == "" || got.Type != captcha.Turnstile || got.Made.IsZero()) {
		r.t.Fatalf("the poll: %+v, %v; want %v", got, err, want)
	}
	return got.Token
}

func (r *replica) addToken(life time.Duration) {
	r.t.Helper()
	r.orders++
	ref := pool.Ref{Identity: target, Order: fmt.Sprint("order", r.orders)}
	if placed, err := r.store.Place(r.t.Context(), pool.Order{Ref: ref, Depth: 1000, TTL: time.Minute}); err != nil || !placed.Placed {
		r.t.Fatalf("placing: %+v, %v", placed, err)
	}
	if how, err := r.store.Settle(r.t.Context(), pool.Landing{Ref: ref, Provider: "p", Value: "token-" + ref.Order, Lifetime: life}); err != nil || how != pool.Ended {
		r.t.Fatalf("landing: %v, %v", how, err)
	}
	synctest.Wait()
}

// checkFigures checks the stock: fresh tokens, pending callers, and the counts of requests, hits,
// waits and misses.
func (r *replica) checkFigures(what string, fresh, waiting int, counts ...int64) {
	r.t.Helper()
	s, err := r.store.Look(r.t.Context(), target, 10*time.Second, 0)
	f := s.Figures
	if got := []int64{f.Requests, f.Hits, f.Waited, f.Misses}; err != nil || s.Fresh != fresh || s.Waiting != waiting || !reflect.DeepEqual(got, counts) {
		r.t.Fatalf("%s: %d fresh, %d wait, requests, hits, waited and misses %v, %v; want %d, %d, %v", what, s.Fresh, s.Waiting, got, err, fresh, waiting, counts)
	}
}

func runReplicas(t *testing.T, n int, test func(t *testing.T, replicas []*replica)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		bubble := redistest.InBubble(t)
		all := make([]*replica, n)
		for i := range all {
			all[i] = start(t, bubble)
		}
		test(t, all)
	})
}

// The first poll takes a token from a full pool. Later polls by the same caller return the same
// token at every replica.
func TestAPooledTaskTakesAtItsFirstPoll(t *testing.T) {
	runReplicas(t, 2, func(t *testing.T, rs []*replica) {
		one, two := rs[0], rs[1]
		one.addToken(time.Minute)
		one.addToken(time.Minute)
		number := one.submit()
		one.checkFigures("after the submit nothing is taken", 2, 0, 0, 0, 0, 0)
		if _, err := one.Poll(t.Context(), number, "key\x00other\x00", one.terms); !errors.Is(err, UnknownTask) {
			t.Errorf("another caller: %v", err)
		}
		if _, _, err := one.Report(t.Context(), number, caller); !errors.Is(err, NotReported) {
			t.Errorf("a report before the token: %v", err)
		}
		token := one.poll(number, nil)
		if token.Source != pool.FromPool {
			t.Errorf("%+v", token)
		}
		for _, r := range []*replica{one, two, one} {
			if again := r.poll(number, nil); again.Value != token.Value || again.ID != token.ID || again.Source != pool.FromReplay {
				t.Errorf("again: %+v", again)
			}
		}
		one.checkFigures("one request", 1, 0, 1, 1, 0, 0)
		state, name, err := two.Report(t.Context(), number, caller)
		if err != nil || name != token.ID || state.Identity != target {
			t.Errorf("to be reported: %+v %q, %v", state, name, err)
		}
		if _, _, err := two.Report(t.Context(), number, "key\x00other\x00"); !errors.Is(err, UnknownTask) {
			t.Errorf("reported by another: %v", err)
		}
		time.Sleep(time.Minute)
		one.poll(number, UnknownTask) // the token has expired
		one.addToken(time.Minute)
		one.poll(number, UnknownTask)
		one.checkFigures("no second token", 1, 0, 1, 1, 0, 0)
		if _, name, err := one.Report(t.Context(), number, caller); err != nil || name != token.ID {
			t.Errorf("a late report: %q, %v", name, err)
		}
		time.Sleep(15 * time.Minute)
		if _, _, err := one.Report(t.Context(), number, caller); !errors.Is(err, UnknownTask) {
			t.Errorf("after 15 minutes: %v", err)
		}
	})
}

// If the pool is empty, a task holds one ticket from its submission on. The task counts as one
// request, regardless of the number of polls and replicas.
func TestAWaitingTaskIsOneRequest(t *testing.T) {
	runReplicas(t, 2, func(_ *testing.T, rs []*replica) {
		one, two := rs[0], rs[1]
		number := one.submit()
		one.checkFigures("it waits from its submit", 0, 1, 1, 0, 0, 0)
		for i := range 60 {
			time.Sleep(time.Second)
			rs[i%2].poll(number, NotReady)
			one.checkFigures("after a poll", 0, 1, 1, 0, 0, 0)
		}
		one.addToken(time.Minute)
		token := two.poll(number, nil)
		if token.Source != pool.FromWait {
			one.t.Errorf("%+v", token)
		}
		if again := one.poll(number, nil); again.Value != token.Value || again.Source != pool.FromReplay {
			one.t.Errorf("%+v", again)
		}
		one.checkFigures("one request", 0, 0, 1, 0, 1, 0)
	})
}

// A replica gives a task up 30 s after the task's submission or last poll. The next poll continues
// the task.
func TestAnUnpolledTaskIsGivenUp(t *testing.T) {
	runReplicas(t, 2, func(t *testing.T, rs []*replica) {
		one, two := rs[0], rs[1]
		number := one.submit()
		time.Sleep(25 * time.Second)
		two.poll(number, NotReady)
		time.Sleep(25 * time.Second)
		one.checkFigures("it still waits", 0, 1, 1, 0, 0, 0)
		time.Sleep(6 * time.Second)
		one.checkFigures("it is given up", 0, 0, 1, 0, 0, 0)
		one.addToken(time.Minute)
		one.checkFigures("what lands now is not for it", 1, 0, 1, 0, 0, 0)
		two.poll(number, nil)
		one.checkFigures("unless it is polled", 0, 0, 2, 1, 0, 0)

		vanishes := one.submit()
		one.addToken(time.Minute)
		one.addToken(time.Minute)
		time.Sleep(40 * time.Second)
		one.checkFigures("who vanishes after a landing has one token", 1, 0, 3, 1, 1, 0)
		one.poll(vanishes, nil)
	})
}

// If the waiting replica ends, the next polled replica continues the task with the same ticket.
// After a crash, the task continues only when the lease has expired.
func TestAnotherReplicaContinuesATask(t *testing.T) {
	runReplicas(t, 3, func(t *testing.T, rs []*replica) {
		one, two, three := rs[0], rs[1], rs[2]
		number := one.submit()
		one.stop()
		two.poll(number, NotReady)
		two.checkFigures("after a stop", 0, 1, 2, 0, 0, 0)
		// After a crash, neither the lease nor the ticket is renewed.
		two.mu.Lock()
		w := two.waiting[number]
		delete(two.waiting, number)
		two.mu.Unlock()
		three.poll(number, NotReady)
		time.Sleep(2500 * time.Millisecond)
		three.poll(number, NotReady)
		if three.find(number) == nil {
			t.Error("the third does not wait")
		}
		w.end()
		time.Sleep(time.Second)
		three.checkFigures("the ticket is one", 0, 1, 3, 0, 0, 0)
		three.addToken(time.Minute)
		three.poll(number, nil)
		three.checkFigures("it is served once", 0, 0, 3, 0, 1, 0)
	})
}

// If a replica is killed between the take and the write of the record, the next poll returns the
// same token.
func TestAKillAfterTheTakeKeepsTheToken(t *testing.T) {
	runReplicas(t, 1, func(t *testing.T, rs []*replica) {
		one := rs[0]
		one.addToken(time.Minute)
		one.addToken(time.Minute)
		number := one.submit()
		on, _ := one.terms(Task{})
		on.Take.Idempotency = idempotency(caller, number)
		token, err := one.store.Take(t.Context(), on.Take)
		if err != nil {
			t.Fatal(err)
		}
		if got := one.poll(number, nil); got.Value != token.Value {
			t.Errorf("another token: %+v", got)
		}
		one.checkFigures("one is taken", 1, 0, 1, 1, 0, 0)
	})
}

// If no token can come, the methods Submit and Poll fail, and no request is counted.
func TestPollsFailIfNoTokenCanCome(t *testing.T) {
	runReplicas(t, 1, func(t *testing.T, rs []*replica) {
		one := rs[0]
		waits := one.submit()
		one.addToken(time.Minute)
		one.poll(waits, nil)
		one.addToken(time.Minute)
		pooled := one.submit()
		other := one.submit()
		one.poll(other, nil)
		one.supply.out.Store(true)
		on, _ := one.terms(Task{})
		if _, err := one.Submit(t.Context(), targetTask, on); CauseOf(err) != NoSlot {
			t.Errorf("the submit: %v", err)
		}
		one.poll(pooled, NoSlot)
		one.poll(pooled, NoSlot)
		one.checkFigures("two were served", 0, 0, 2, 1, 1, 0)
		one.supply.out.Store(false)
		one.poll(pooled, NotReady)
		close(one.supply.over)
		time.Sleep(time.Second)
		one.checkFigures("the wait is over", 0, 0, 3, 1, 1, 1)
	})
}

// A submission is refused when too many callers wait.
func TestWaitingTasksAreLimited(t *testing.T) {
	runReplicas(t, 1, func(t *testing.T, rs []*replica) {
		for range 20 {
			rs[0].submit()
		}
		on, _ := rs[0].terms(Task{})
		if _, err := rs[0].Submit(t.Context(), targetTask, on); CauseOf(err) != NoSlot {
			t.Errorf("the one too many: %v", err)
		}
	})
}

// A replica with the maximum number of waiting tasks refuses another task and keeps no data of that
// task.
func TestWaitingTasksOfAReplicaAreLimited(t *testing.T) {
	runReplicas(t, 1, func(t *testing.T, rs []*replica) {
		one := rs[0]
		one.mu.Lock()
		for i := range mostWaiting {
			one.waiting[fmt.Sprint(i)] = &waiter{end: func() {}}
		}
		one.mu.Unlock()
		on, _ := one.terms(Task{})
		if number, err := one.Submit(t.Context(), targetTask, on); CauseOf(err) != NoSlot || number != "" {
			t.Errorf("the one too many: %q, %v", number, err)
		}
		one.mu.Lock()
		if n := len(one.waiting); n != mostWaiting {
			t.Errorf("%d wait", n)
		}
		clear(one.waiting)
		one.mu.Unlock()
		one.checkFigures("nothing waits", 0, 0, 0, 0, 0, 0)
	})
}

// The token of a guest's task is bought at the submission. Submit returns an early refusal of the
// order.
func TestAGuestsTaskIsBoughtAtItsSubmit(t *testing.T) {
	runReplicas(t, 1, func(t *testing.T, rs []*replica) {
		one := rs[0]
		guest := Terms{Take: pool.Request{ID: target, Caller: caller, MaxWaiting: 20}, Guest: &ondemand.Guest{}}
		plain := func(Task) (Terms, error) {
			return Terms{Take: guest.Take}, nil
		}
		submit := func() (string, error) {
			return one.Submit(t.Context(), targetTask, guest)
		}
		one.solver = func(context.Context, ondemand.Request) (pool.Token, error) {
			return pool.Token{}, &ondemand.BudgetError{Reason: "used up"}
		}
		if _, err := submit(); CauseOf(err) != NoSlot {
			t.Errorf("without a budget: %v", err)
		}
		for want, solve := range map[Cause]*ondemand.SolveError{Unsolvable: {}, Refused: {Refused: true}} {
			one.solver = func(ctx context.Context, r ondemand.Request) (pool.Token, error) {
				r.Take.Parked()
				time.Sleep(5 * time.Second)
				return pool.Token{}, solve
			}
			number, err := submit()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := one.Poll(t.Context(), number, caller, plain); !errors.Is(err, NotReady) {
				t.Errorf("the first poll: %v", err)
			}
			time.Sleep(5 * time.Second)
			for range 2 {
				if _, err := one.Poll(t.Context(), number, caller, plain); CauseOf(err) != want {
					t.Errorf("%v, want %v", err, want)
				}
			}
		}
		one.solver = func(ctx context.Context, r ondemand.Request) (pool.Token, error) { return one.store.Take(ctx, r.Take) }
		number, err := submit()
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(40 * time.Second) // the task is given up; its order continues
		one.addToken(time.Minute)
		got, err := one.Poll(t.Context(), number, caller, plain)
		if err != nil || got.Token.Value == "" {
			t.Fatalf("%+v, %v", got, err)
		}
		// The order of the next task ends after the task has lost its ticket.
		if number, err = submit(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(40 * time.Second)
		if _, err := one.Poll(t.Context(), number, caller, plain); !errors.Is(err, NotReady) {
			t.Errorf("at first: %v", err)
		}
		time.Sleep(2 * time.Second)
		if _, err := one.Poll(t.Context(), number, caller, plain); !errors.Is(err, Unsolvable) {
			t.Errorf("then: %v", err)
		}
	})
}

// During an outage of Redis, calls fail with StoreDown. After the outage the task continues.
func TestATaskSurvivesAnOutageOfRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bubble := redistest.InBubble(t)
		one := start(t, bubble)
		number := one.submit()
		synctest.Wait() // the first probe must also end, before Redis is down
		bubble.SetDown(true)
		time.Sleep(3 * time.Second)
		if _, err := one.Poll(t.Context(), number, caller, one.terms); CauseOf(err) != StoreDown {
			t.Errorf("the poll: %v", err)
		}
		on, _ := one.terms(Task{})
		if _, err := one.Submit(t.Context(), Task{Caller: caller, Identity: target}, on); CauseOf(err) != StoreDown {
			t.Errorf("the submit: %v", err)
		}
		one.solver = func(context.Context, ondemand.Request) (pool.Token, error) {
			t.Error("a task without a record is bought")
			return pool.Token{}, &ondemand.SolveError{}
		}
		if number, err := one.Submit(t.Context(), targetTask, Terms{Take: on.Take, Guest: &ondemand.Guest{}}); CauseOf(err) != StoreDown || number != "" {
			t.Errorf("the submit of a guest: %q, %v", number, err)
		}
		bubble.SetDown(false)
		time.Sleep(5 * time.Second)
		one.poll(number, NotReady)
		one.addToken(time.Minute)
		one.poll(number, nil)
	})
}

// Each cause has a code in both protocols.
func TestEveryCauseHasCodes(t *testing.T) {
	for c := Broken; c <= NoAction; c++ {
		if c.Legacy() == "" || c.Tasks() == "" || (c.Why() == "") != (c == NotReady) {
			t.Errorf("%d: %q %q %q", c, c.Legacy(), c.Tasks(), c.Why())
		}
	}
	if len(causeTexts) != int(NoAction)+1 {
		t.Errorf("%d causes have words", len(causeTexts))
	}
	for err, want := range map[error]Cause{
		fmt.Errorf("x: %w", NotReady): NotReady, pool.ErrReported: Duplicate, pool.ErrUnknownToken: NotReported, redisdb.ErrDown: StoreDown,
		&pool.RateError{}: NoSlot, &ondemand.OutageError{}: NoSlot, &pool.FailedError{Refused: true}: Refused, &pool.FailedError{}: Unsolvable, errors.ErrUnsupported: Broken,
		context.DeadlineExceeded: StoreDown, pool.ErrClosed: Stopping, &ondemand.BudgetError{}: NoSlot, &pool.EmptyError{}: NoSlot,
		&ondemand.SolveError{Refused: true}: Refused, &ondemand.SolveError{}: Unsolvable,
	} {
		if got := CauseOf(err); got != want {
			t.Errorf("%v is %v, want %v", err, got, want)
		}
	}
}
