package httpapi

import (
	"context"
	"slices"
	"sync"
	"time"

	"poold/internal/captcha"
	"poold/internal/ondemand/dedup"
	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/refill"
)

type fakeRefill struct {
	mu       sync.Mutex
	statuses map[string]refill.Status
	kicked   []captcha.ID
}

func (f *fakeRefill) Refresh(context.Context) error { return nil }

func (f *fakeRefill) Status(name string) (refill.Status, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now, ok := f.statuses[name]
	return now, ok
}

func (f *fakeRefill) Stock(string, time.Time) (stock pool.Stock, read time.Time, holds bool) {
	return pool.Stock{}, time.Time{}, false
}

func (f *fakeRefill) Current(_ context.Context, name string) (refill.Status, bool) {
	return f.Status(name)
}

func (f *fakeRefill) Wake(id captcha.ID) { f.kicked = append(f.kicked, id) }

// fakeBuyer is a Buyer whose results are its fields. fakeBuyer also records the calls.
type fakeBuyer struct {
	providers func(ctx context.Context, at time.Time) []purchase.Status
	booked    func() (used, perDay int, err error)
	guests    func() (hour, day int, err error) // use of the guests' budget
	callback  func() error
	letters   []purchase.DeadLetter
	unread    error // error of DeadLetters; nil = all letters can be read
	aside     int
	stranded  []purchase.Stranded
	underWay  []purchase.OrderInFlight
	unlisted  error // error of OrdersInFlight; nil = the orders are known
	replay    func(ctx context.Context) (purchase.Replayed, error)

	mu        sync.Mutex
	probed    []string
	probe     func(name string) (purchase.Status, error)
	callbacks []purchase.Callback
	reports   []passedReport
}

type passedReport struct {
	provider, task string
	kind           captcha.Type
	age            time.Duration
	accepted       bool
}

func (f *fakeBuyer) Providers(ctx context.Context, at time.Time) []purchase.Status {
	return f.providers(ctx, at)
}

func (f *fakeBuyer) Booked(context.Context) (used, perDay int, err error) { return f.booked() }

func (f *fakeBuyer) BookedForGuests(context.Context) (hour, day int, err error) { return f.guests() }

func (f *fakeBuyer) Probe(_ context.Context, name string) (purchase.Status, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.probed = append(f.probed, name)
	return f.probe(name)
}

func (f *fakeBuyer) Stranded() []purchase.Stranded { return f.stranded }

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

func (f *fakeBuyer) DeadLetters() ([]purchase.DeadLetter, error) { return f.letters, f.unread }

func (f *fakeBuyer) DeadLetterCount() int     { return len(f.letters) }
func (f *fakeBuyer) DeadLettersSetAside() int { return f.aside }

func (f *fakeBuyer) Replay(ctx context.Context) (purchase.Replayed, error) { return f.replay(ctx) }

type fakeGuests struct {
	stock pool.GuestStock
	err   error
}

func (f *fakeGuests) Survey(context.Context) (pool.GuestStock, error) { return f.stock, f.err }

type fakeSavings struct {
	days []dedup.SavingsDay
	err  error
}

func (f *fakeSavings) Days(context.Context) ([]dedup.SavingsDay, error) { return f.days, f.err }
