package refill

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"poold/internal/captcha"
	"poold/internal/provider"
)

// fakeProvider is a provider whose tasks take time.
type fakeProvider struct {
	name    string
	mu      sync.Mutex
	draw    *rand.Rand
	lead    func() time.Duration
	submit  func(id captcha.Identity) error // returns an error to refuse the submit; nil = accepts all
	fail    func(id captcha.Identity) bool  // whether the task fails
	down    bool
	pace    [2]time.Duration     // first poll and interval
	tasks   map[string]time.Time // task -> time of its solve
	dead    map[string]bool
	sold    []captcha.ID
	submits []time.Time
}

func newFakeProvider(name string) *fakeProvider {
	m := &fakeProvider{
		name: name, draw: rand.New(rand.NewPCG(1, 2)),
		pace:  [2]time.Duration{10 * time.Second, 2 * time.Second},
		tasks: map[string]time.Time{}, dead: map[string]bool{},
	}
	m.lead = func() time.Duration { return 12*time.Second + time.Duration(m.draw.Int64N(int64(12*time.Second))) }
	return m
}

func (m *fakeProvider) Name() string                               { return m.name }
func (m *fakeProvider) Timeout() time.Duration                     { return 3 * time.Minute }
func (m *fakeProvider) Threads(context.Context) (int, bool, error) { return 0, false, nil }
func (m *fakeProvider) ReadBalance(context.Context) error          { return nil }
func (m *fakeProvider) Pace(captcha.Type) (first, interval time.Duration) {
	return m.pace[0], m.pace[1]
}

func (m *fakeProvider) Report(context.Context, string, captcha.Type, bool) error { return nil }
func (m *fakeProvider) ReportWindow() time.Duration                              { return time.Minute }

func (m *fakeProvider) Submit(_ context.Context, r provider.Request) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.submits = append(m.submits, time.Now())
	id := r.Identity
	if m.submit != nil {
		if err := m.submit(id); err != nil {
			return "", err
		}
	}
	task := fmt.Sprintf("%s-%d", m.name, len(m.submits))
	m.tasks[task] = time.Now().Add(m.lead())
	m.dead[task] = m.fail != nil && m.fail(id)
	m.sold = append(m.sold, id.ID())
	return task, nil
}

func (m *fakeProvider) Poll(_ context.Context, task string, _ captcha.Identity) (provider.Solution, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Now().Before(m.tasks[task]) {
		return provider.Solution{}, provider.ErrNotReady
	}
	if m.dead[task] {
		return provider.Solution{}, &provider.Error{Class: provider.Task, Code: "UNSOLVABLE"}
	}
	return provider.Solution{Token: "for " + task}, nil
}

func (m *fakeProvider) Ready(time.Time) (bool, time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.down, time.Second
}

func (m *fakeProvider) State(time.Time) provider.State {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down {
		return provider.State{Kind: provider.StateDown}
	}
	return provider.State{Kind: provider.StateOK}
}

// with holds the provider's lock while it calls the function `change`.
func (m *fakeProvider) with(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

func (m *fakeProvider) asked() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.submits)
}

func (m *fakeProvider) sales() []captcha.ID {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]captcha.ID(nil), m.sold...)
}

// A fakeProvider is never down.
func (*fakeProvider) Fault() *provider.Fault                   { return nil }
func (*fakeProvider) Adopt(context.Context, *provider.Fault)   {}
func (*fakeProvider) Answered() time.Time                      { return time.Time{} }
func (*fakeProvider) PollTurn(time.Time) (bool, time.Duration) { return true, 0 }
func (*fakeProvider) Probe(context.Context) error              { return nil }
