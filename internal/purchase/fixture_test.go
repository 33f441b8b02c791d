package purchase

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"go.uber.org/goleak"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/provider"
)

func TestMain(m *testing.M) {
	miniredis.DumpMaxLineLen = 1 << 20 // because tests compare dumps of Redis
	// If go-redis retries a dial, its goroutine may sleep for up to a second after Close.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// A ledger records events in the sequence in which they happen, so that a test can compare them.
// The stock and the fakes of a test share one ledger.
type ledger struct {
	mu      sync.Mutex
	entries []string
	budgets []string // the budgets that refused orders, with the target
}

func (l *ledger) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, fmt.Sprintf(format, args...))
}

func (l *ledger) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.entries)
}

func (l *ledger) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = nil
}

func (l *ledger) want(t *testing.T, want ...string) {
	t.Helper()
	if got := l.all(); !slices.Equal(got, want) {
		t.Errorf("what happened:\n  %q\nwant:\n  %q", got, want)
	}
}

// fakeProvider is a provider whose calls run functions that the test sets.
type fakeProvider struct {
	*ledger
	name    string
	mu      sync.Mutex
	state   provider.State
	wait    time.Duration // wait that Ready returns if the state is not ok
	fault   *provider.Fault
	submit  func(ctx context.Context) (string, error)
	poll    func(ctx context.Context, n int) (provider.Solution, error)
	polls   int
	threads func() (int, bool, error)
	limit   time.Duration

	submitted provider.Request // the last submitted request, without the image
	image     string           // image of the last submitted request
	polled    captcha.Identity // identity of the last polled task
	sold      int              // number of tokens sold so far
	answered  time.Time        // result of Answered
	report    func() error
	probe     error // error that Probe returns
}

func newFakeProvider(l *ledger, name string) *fakeProvider {
	return &fakeProvider{
		ledger: l, name: name, state: provider.State{Kind: provider.StateOK}, limit: 3 * time.Minute,
		submit: func(context.Context) (string, error) { return "t1", nil },
		poll: func(context.Context, int) (provider.Solution, error) {
			return provider.Solution{Token: "03AFexample"}, nil
		},
		threads: func() (int, bool, error) { return 0, false, nil },
	}
}

func (s *fakeProvider) Name() string { return s.name }

func (s *fakeProvider) Submit(ctx context.Context, r provider.Request) (string, error) {
	s.mu.Lock()
	s.image = string(r.Image)
	r.Image = nil
	s.submitted = r
	s.mu.Unlock()
	s.add("submit")
	return s.submit(ctx)
}

func (s *fakeProvider) Report(_ context.Context, task string, _ captcha.Type, good bool) error {
	s.add("report %s %v", task, good)
	if s.report == nil {
		return nil
	}
	return s.report()
}

func (s *fakeProvider) ReportWindow() time.Duration { return time.Minute }

func (s *fakeProvider) Poll(ctx context.Context, task string, id captcha.Identity) (provider.Solution, error) {
	s.mu.Lock()
	s.polled = id
	s.polls++
	n := s.polls
	s.mu.Unlock()
	s.add("poll %s", task)
	solution, err := s.poll(ctx, n)
	if err == nil && solution.Token == "03AFexample" {
		s.mu.Lock()
		defer s.mu.Unlock()
		// The tokens of all providers differ.
		if s.sold++; s.sold > 1 || s.name != "one" {
			solution.Token += fmt.Sprint("-", s.name, "-", s.sold)
		}
	}
	return solution, err
}

func (s *fakeProvider) Pace(captcha.Type) (time.Duration, time.Duration) {
	return 15 * time.Second, 5 * time.Second
}

func (s *fakeProvider) Timeout() time.Duration { return s.limit }

func (s *fakeProvider) Ready(time.Time) (bool, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.Kind == provider.StateOK {
		return true, 0
	}
	return false, s.wait
}

func (s *fakeProvider) State(time.Time) provider.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

func (s *fakeProvider) setState(k provider.StateKind, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state, s.wait = provider.State{Kind: k}, wait
}

func (s *fakeProvider) Threads(context.Context) (int, bool, error) { return s.threads() }

func (s *fakeProvider) Fault() *provider.Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fault
}

func (s *fakeProvider) Adopt(_ context.Context, f *provider.Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

func (s *fakeProvider) Answered() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answered
}

// change lets a test change the provider while calls are in flight.
func (s *fakeProvider) change(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

func (s *fakeProvider) PollTurn(time.Time) (bool, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fault == nil || s.fault.Polls, time.Minute
}

func (s *fakeProvider) Probe(context.Context) error { return s.probe }

func (s *fakeProvider) ReadBalance(context.Context) error { return errors.New("no balance here") }

// witness is an observer that records the outcomes in the ledger.
type witness struct{ *ledger }

func (w witness) Ended(e Event) { w.add("%s at %s: %s", e.Target, e.Provider, e.Outcome) }

func (w witness) Callback(outcome string)   { w.add("callback %s", outcome) }
func (w witness) DeadLetter(outcome string) { w.add("letter %s", outcome) }
func (w witness) Report(name, outcome string) {
	w.add("report to %s: %s", name, outcome)
}

func (w witness) BudgetUsedUp(of pool.Budget, target string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.budgets = append(w.budgets, string(of)+" "+target)
}

// testBuyer is a buyer with one provider and a stock.
type testBuyer struct {
	*ledger
	stock    *stock
	provider *fakeProvider
	buyer    *Buyer
}

// withBuyer runs a test in a bubble, with a buyer whose provider has the given concurrency.
func withBuyer(t *testing.T, concurrency int, test func(t *testing.T, s *testBuyer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newTestBuyer(t, concurrency)) })
}

// runBubble runs a subtest in its own bubble.
func runBubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

func newTestBuyer(t *testing.T, concurrency int) *testBuyer {
	t.Helper()
	return newTestBuyerWith(t, concurrency, "no letters")
}

// newTestBuyerWith returns a buyer with a folder for dead letters.
func newTestBuyerWith(t *testing.T, concurrency int, letters string) *testBuyer {
	t.Helper()
	l := &ledger{}
	return openTestBuyer(newTestRedis(t, l), concurrency, letters)
}

// openTestBuyer returns one replica: a buyer on the test's Redis with its own fake provider "one".
func openTestBuyer(w *testRedis, concurrency int, letters string) *testBuyer {
	w.t.Helper()
	s := &testBuyer{ledger: w.ledger, provider: newFakeProvider(w.ledger, "one")}
	s.stock = &stock{testRedis: w, Store: w.open(func(order pool.Ref, how string) { s.buyer.Ended(order, how) })}
	s.buyer = NewBuyer(s.stock, letters, witness{w.ledger}, quiet())
	s.buyer.SetProviders([]Entry{{Provider: s.provider, Concurrency: concurrency}})
	return s
}

// replica returns another buyer on the same Redis.
func (s *testBuyer) replica(letters string) *testBuyer {
	return openTestBuyer(s.stock.testRedis, 5, letters)
}

// subscribe subscribes the buyer's store to the messages of other replicas until the test ends.
func (s *testBuyer) subscribe(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- s.stock.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the store's run: %v", err)
		}
	})
	synctest.Wait()
}

func spec() Spec {
	id := captcha.Identity{Type: captcha.RecaptchaV2, Sitekey: "k", Pageurl: "https://example.com/"}
	return Spec{
		Target: "login", Owner: "qa@example.com", Identity: id, ID: id.ID(), Depth: 10,
		Margin: 40 * time.Second, Lifetime: 120 * time.Second, Lead: 20 * time.Second,
	}
}

// order admits and places an order. Afterwards it clears the recorded calls.
func (s *testBuyer) order(t *testing.T) *Order {
	t.Helper()
	return s.orderFor(t, spec())
}

func mustPlace(t *testing.T, d *Buyer, target Spec) *Order {
	t.Helper()
	slot, err := d.Admit(t.Context(), Bid{})
	if err != nil {
		t.Fatal(err)
	}
	o, err := d.placer.place(t.Context(), slot, target)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func (s *testBuyer) orderFor(t *testing.T, target Spec) *Order {
	t.Helper()
	o := mustPlace(t, s.buyer, target)
	s.forget()
	return o
}

// reserve acquires a permit for an order. The permit lasts one day.
func (s *testBuyer) reserve(t *testing.T, name string, order pool.Ref) {
	t.Helper()
	if p, err := s.stock.other().Acquire(t.Context(), name, order, 99, 24*time.Hour, -1); err != nil || !p.OK {
		t.Fatal(p.OK, err)
	}
}

// renew renews the lease of an order that the buyer's replica owns.
func (s *testBuyer) renew(t *testing.T, order pool.Ref) {
	t.Helper()
	if lost, err := s.stock.Store.Renew(t.Context(), []pool.Ref{order}); err != nil || len(lost) != 0 {
		t.Fatal(lost, err)
	}
}

// startCollecting collects an order in the background. It returns when the background work blocks.
func (s *testBuyer) startCollecting(t *testing.T, o *Order) <-chan Result {
	t.Helper()
	ended := make(chan Result, 1)
	go func() { ended <- s.buyer.orders.collect(t.Context(), o) }()
	synctest.Wait()
	return ended
}

// startRunning runs the buyer until the test calls the returned function.
func (s *testBuyer) startRunning(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.buyer.Run(ctx) }()
	synctest.Wait()
	return func() {
		t.Helper()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	}
}

// slots returns the number of slots in use at each configured provider.
func (b *Buyer) slots() (taken []int) {
	b.accounts.mu.Lock()
	defer b.accounts.mu.Unlock()
	for _, a := range b.accounts.listed {
		taken = append(taken, a.slotsUsed)
	}
	return taken
}

// notReady returns a poll function whose n-th call finds the task solved.
func notReady(n int) func(context.Context, int) (provider.Solution, error) {
	return func(_ context.Context, poll int) (provider.Solution, error) {
		if poll < n {
			return provider.Solution{}, provider.ErrNotReady
		}
		return provider.Solution{Token: "03AFexample", UserAgent: "UA"}, nil
	}
}

// near reports whether got differs from want by at most the tolerance. Polls have
// jitter, so tests cannot compare exact times.
func near(got, want, tolerance time.Duration) bool { return (got - want).Abs() <= tolerance }
