package purchase

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/provider"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// ledger writes down what happened, in order, so that a test can compare it
// with what should have. All doubles of a test share one.
type ledger struct {
	mu      sync.Mutex
	entries []string
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

// stock is Redis in memory: it judges the depth sentence and can be told to
// fail at a step.
type stock struct {
	*ledger
	mu       sync.Mutex
	places   map[string]map[string]bool // provider -> orders
	orders   map[string]pool.Order
	tasks    map[string]string
	landings []pool.Landing
	tokens   int
	failed   int // counted ones
	refuse   bool
	// fault is asked before each step; an error makes it fail unexecuted.
	fault func(step string) error
	// lostReply is asked after each step: an error replaces its answer.
	lostReply func(step string) error
}

func newStock(l *ledger) *stock {
	return &stock{
		ledger: l, places: map[string]map[string]bool{},
		orders: map[string]pool.Order{}, tasks: map[string]string{},
	}
}

// do runs one step as Redis would: whole or not at all.
func (s *stock) do(ctx context.Context, step string, change func()) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", pool.ErrDown, err)
	}
	if _, bounded := ctx.Deadline(); !bounded {
		return errors.New("a step without a limit: " + step)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault != nil {
		if err := s.fault(step); err != nil {
			return err
		}
	}
	s.add("%s", step)
	change()
	if s.lostReply != nil {
		return s.lostReply(step)
	}
	return nil
}

func (s *stock) Reserve(ctx context.Context, name, order string, limit int, _ time.Duration) (ok bool, n int, err error) {
	err = s.do(ctx, "reserve", func() {
		if s.places[name] == nil {
			s.places[name] = map[string]bool{}
		}
		if len(s.places[name]) < limit {
			s.places[name][order] = true
		}
		ok, n = s.places[name][order], len(s.places[name])
	})
	return ok && err == nil, n, err
}

func (s *stock) Release(ctx context.Context, name, order string) error {
	return s.do(ctx, "release", func() { delete(s.places[name], order) })
}

func (s *stock) InFlight(ctx context.Context, names []string) ([]int, error) {
	counts := make([]int, len(names))
	err := s.do(ctx, "inflight", func() {
		for i, name := range names {
			counts[i] = len(s.places[name])
		}
	})
	return counts, err
}

func (s *stock) Place(ctx context.Context, o pool.Order) (placed bool, st pool.Stock, err error) {
	err = s.do(ctx, "place", func() {
		if _, there := s.orders[o.ID]; !there && (s.refuse || s.tokens+len(s.orders) >= o.Depth) {
			return
		}
		placed = true
		s.orders[o.ID] = o
		st.Orders = len(s.orders)
	})
	return placed && err == nil, st, err
}

func (s *stock) Submitted(ctx context.Context, _ captcha.ID, order, task string) error {
	return s.do(ctx, "store "+task, func() { s.tasks[order] = task })
}

func (s *stock) Settle(ctx context.Context, l pool.Landing) (settled bool, err error) {
	err = s.do(ctx, "settle", func() {
		if _, settled = s.orders[l.Order]; settled {
			delete(s.orders, l.Order)
			s.landings = append(s.landings, l)
			s.tokens++
		}
	})
	return settled, err
}

func (s *stock) Fail(ctx context.Context, _ captcha.ID, order string, counted bool) (removed bool, err error) {
	err = s.do(ctx, fmt.Sprintf("fail counted=%v", counted), func() {
		if _, removed = s.orders[order]; removed {
			delete(s.orders, order)
			if counted {
				s.failed++
			}
		}
	})
	return removed, err
}

// counts is what is left in Redis.
func (s *stock) counts() (orders, places int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, orders := range s.places {
		places += len(orders)
	}
	return len(s.orders), places
}

func (s *stock) landed() []pool.Landing {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.landings)
}

// seat is a provider that does what the test's functions say.
type seat struct {
	*ledger
	name    string
	mu      sync.Mutex
	state   provider.State
	wait    time.Duration // until Ready, where the state is not ok
	readies int           // how often Ready was asked
	submit  func(ctx context.Context) (string, error)
	poll    func(ctx context.Context, n int) (provider.Solution, error)
	polls   int
	threads func() (int, bool, error)
	asked   int // Threads
	limit   time.Duration
}

func newSeat(l *ledger, name string) *seat {
	return &seat{
		ledger: l, name: name, state: provider.State{Kind: provider.StateOK}, limit: 3 * time.Minute,
		submit: func(context.Context) (string, error) { return "t1", nil },
		poll: func(context.Context, int) (provider.Solution, error) {
			return provider.Solution{Token: "03AFexample"}, nil
		},
		threads: func() (int, bool, error) { return 0, false, nil },
	}
}

func (s *seat) Name() string { return s.name }

func (s *seat) Submit(ctx context.Context, _ captcha.Identity) (string, error) {
	s.add("submit")
	return s.submit(ctx)
}

func (s *seat) Poll(ctx context.Context, task string, _ captcha.Identity) (provider.Solution, error) {
	s.mu.Lock()
	s.polls++
	n := s.polls
	s.mu.Unlock()
	s.add("poll %s", task)
	return s.poll(ctx, n)
}

func (s *seat) Pace(captcha.Type) (time.Duration, time.Duration) {
	return 15 * time.Second, 5 * time.Second
}

func (s *seat) Timeout() time.Duration { return s.limit }

func (s *seat) Ready(time.Time) (bool, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readies++
	if s.state.Kind == provider.StateOK {
		return true, 0
	}
	return false, s.wait
}

func (s *seat) State(time.Time) provider.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

func (s *seat) setState(k provider.StateKind, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state, s.wait = provider.State{Kind: k}, wait
}

func (s *seat) Threads(context.Context) (int, bool, error) {
	s.mu.Lock()
	s.asked++
	s.mu.Unlock()
	return s.threads()
}

// calls is how often Ready and Threads were asked.
func (s *seat) calls() (readies, threads int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.readies, s.asked
}

func (s *seat) ReadBalance(context.Context) error { return errors.New("no balance here") }

// witness records outcomes.
type witness struct{ *ledger }

func (w witness) Solve(target, name, outcome string, _ time.Duration) {
	w.add("%s at %s: %s", target, name, outcome)
}

// shop is a desk with one provider and its doubles.
type shop struct {
	*ledger
	stock *stock
	seat  *seat
	desk  *Desk
}

func newShop(concurrency int) *shop {
	l := &ledger{}
	s := &shop{ledger: l, stock: newStock(l), seat: newSeat(l, "one")}
	s.desk = NewDesk(s.stock, witness{l}, quiet())
	s.desk.SetProviders([]Entry{{s.seat, concurrency}})
	return s
}

func spec() Spec {
	id := captcha.Identity{Type: captcha.RecaptchaV2, Sitekey: "k", Pageurl: "https://example.com/"}
	return Spec{
		Target: "login", Identity: id, ID: id.ID(), Depth: 10,
		Margin: 40 * time.Second, Lifetime: 120 * time.Second, Lead: 20 * time.Second,
	}
}

// order admits and places one, and forgets what led to it.
func (s *shop) order(t *testing.T) *Order {
	t.Helper()
	slot, err := s.desk.Admit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o, _, err := s.desk.Place(t.Context(), slot, spec())
	if err != nil {
		t.Fatal(err)
	}
	s.forget()
	return o
}

// slots is how many slots are taken at each provider of the list.
func (d *Desk) slots() (taken []int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.sellers {
		taken = append(taken, s.taken)
	}
	return taken
}
