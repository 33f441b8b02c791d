package httpapi

import (
	"context"
	"slices"
	"sync"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/solve"
	"poold/internal/spool"
)

// fakeBuyer is a Buyer whose results are its fields. fakeBuyer also records the calls.
type fakeBuyer struct {
	providers func(ctx context.Context) []purchase.Status
	callback  func() error
	letters   []spool.Summary
	unread    error // error of DeadLetters; nil = all letters can be read
	underWay  []purchase.OrderInFlight
	unlisted  error // error of OrdersInFlight; nil = the orders are known
	replay    func(ctx context.Context) (map[string]int, error)

	mu        sync.Mutex
	probed    []string
	probe     func(name string) error
	callbacks []purchase.Callback
	reports   []passedReport
}

type passedReport struct {
	provider, task string
	kind           captcha.Type
	age            time.Duration
	accepted       bool
}

func (f *fakeBuyer) Providers(ctx context.Context) []purchase.Status { return f.providers(ctx) }

func (f *fakeBuyer) Probe(_ context.Context, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.probed = append(f.probed, name)
	return f.probe(name)
}

func (f *fakeBuyer) OrdersInFlight(context.Context) ([]purchase.OrderInFlight, error) {
	return slices.Clone(f.underWay), f.unlisted
}

func (f *fakeBuyer) Callback(_ context.Context, c purchase.Callback) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.callbacks = append(f.callbacks, c)
	return f.callback()
}

func (f *fakeBuyer) Report(provider, task string, t captcha.Type, age time.Duration, accepted bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reports = append(f.reports, passedReport{provider, task, t, age, accepted})
}

func (f *fakeBuyer) DeadLetters() ([]spool.Summary, error) { return f.letters, f.unread }

func (f *fakeBuyer) DeadLetterCount() int { return len(f.letters) }

func (f *fakeBuyer) Replay(ctx context.Context) (map[string]int, error) { return f.replay(ctx) }

// fakeOrders buys nothing: the callers of a guest get an answer, or none.
type fakeOrders struct {
	pool   *watchedStock
	answer *pool.FailedError // nil = callers wait
	begun  func(solve.Spec)  // called first for the order of a picture; nil = no-op

	mu    sync.Mutex
	specs []solve.Spec
	tells sync.WaitGroup
}

func (f *fakeOrders) add(s solve.Spec) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.specs = append(f.specs, s)
}

func (f *fakeOrders) last() solve.Spec {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.specs[len(f.specs)-1]
}

func (f *fakeOrders) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.specs)
}

// Guest implements solve.Refiller.
func (f *fakeOrders) Guest(s solve.Spec) (release func()) {
	f.add(s)
	f.tells.Go(func() { f.tell(s) })
	return func() {}
}

// tell answers the callers of a guest as soon as one waits.
func (f *fakeOrders) tell(s solve.Spec) {
	for range 1000 {
		if f.answer == nil {
			return
		}
		if n, _ := f.pool.Refuse(context.Background(), s.ID, f.answer); n > 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// Pace implements solve.Orderer.
func (f *fakeOrders) Pace(captcha.Type) (firstPoll, interval time.Duration) { return 0, 0 }

// Buy implements solve.Orderer.
func (f *fakeOrders) Buy(_ context.Context, s solve.Spec, placed func(next captcha.ID, err error)) {
	f.add(s)
	if f.begun != nil {
		f.begun(s)
	}
	f.tell(s)
	placed("", nil)
}

type fakeSavings struct {
	days []pool.SavingsDay
	err  error
}

func (f *fakeSavings) Savings(context.Context) ([]pool.SavingsDay, error) { return f.days, f.err }
