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
// fail at a step. It is one replica's view: everything is its own unless a test
// steals it.
type stock struct {
	*ledger
	mu       sync.Mutex
	places   map[string]map[pool.Ref]bool // provider -> orders
	booked   map[pool.Ref]bool
	orders   map[pool.Ref]*entry
	claims   map[string]pool.Ref // provider/task -> order
	landings []pool.Landing
	tokens   int
	failed   int // counted ones
	refuse   bool
	wait     time.Duration // of the target's budget
	left     []pool.Ref    // orders that were let go
	told     string        // what a failing callback tells other replicas
	// fault is asked before each step; an error makes it fail unexecuted.
	fault func(step string) error
	// lostReply is asked after each step: an error replaces its answer.
	lostReply func(step string) error
}

// entry is one order of the journal.
type entry struct {
	pool.Order
	state  pool.State
	task   string
	stolen bool // another replica's
	ended  bool // its lease has
	placed time.Time
	marked time.Time
}

func newStock(l *ledger) *stock {
	return &stock{
		ledger: l, places: map[string]map[pool.Ref]bool{}, booked: map[pool.Ref]bool{},
		orders: map[pool.Ref]*entry{}, claims: map[string]pool.Ref{},
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

// look is do for calls that the store bounds itself and that tests do not count.
func (s *stock) look(change func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault != nil {
		if err := s.fault("look"); err != nil {
			return err
		}
	}
	change()
	return nil
}

func (s *stock) Reserve(ctx context.Context, name string, order pool.Ref, limit int, _ time.Duration) (ok bool, at pool.Moment, err error) {
	err = s.do(ctx, "reserve", func() {
		if s.places[name] == nil {
			s.places[name] = map[pool.Ref]bool{}
		}
		if len(s.places[name]) < limit {
			s.places[name][order] = true
		}
		ok = s.places[name][order]
	})
	return ok && err == nil, pool.Moment(time.Now().UnixMilli()), err
}

func (s *stock) Release(ctx context.Context, name string, order pool.Ref) error {
	if _, bounded := ctx.Deadline(); !bounded {
		return s.look(func() { delete(s.places[name], order) }) // swept
	}
	return s.do(ctx, "release", func() { delete(s.places[name], order) })
}

func (s *stock) Places(_ context.Context, name string) (refs []pool.Ref, err error) {
	err = s.look(func() {
		for ref := range s.places[name] {
			refs = append(refs, ref)
		}
	})
	return refs, err
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

func (s *stock) Book(ctx context.Context, order pool.Ref, perDay int, _ pool.Moment) (wait time.Duration, err error) {
	err = s.do(ctx, "book", func() {
		if !s.booked[order] && len(s.booked) >= perDay {
			wait = time.Hour
			return
		}
		s.booked[order] = true
	})
	return wait, err
}

func (s *stock) Refund(ctx context.Context, order pool.Ref) error {
	return s.do(ctx, "refund", func() { delete(s.booked, order) })
}

func (s *stock) Booked(context.Context) (n int, err error) {
	err = s.look(func() { n = len(s.booked) })
	return n, err
}

func (s *stock) Place(ctx context.Context, o pool.Order) (p pool.Placing, err error) {
	err = s.do(ctx, "place", func() {
		_, there := s.orders[o.Ref]
		switch {
		case there:
		case s.refuse || s.tokens+len(s.orders) >= o.Depth:
			return
		case s.wait > 0:
			p.BudgetWait = s.wait
			return
		}
		p.Placed = true
		if !there {
			s.orders[o.Ref] = &entry{Order: o, state: pool.Intent, placed: time.Now()}
		}
	})
	if err != nil {
		return pool.Placing{}, err
	}
	return p, nil
}

// mine finds an order that is this replica's.
func (s *stock) mine(order pool.Ref) *entry {
	if e := s.orders[order]; e != nil && !e.stolen {
		return e
	}
	return nil
}

func (s *stock) Mark(ctx context.Context, order pool.Ref) (ok bool, err error) {
	err = s.do(ctx, "mark", func() {
		if e := s.mine(order); e != nil && e.state != pool.Bought {
			ok, e.state, e.marked = true, pool.Submitting, time.Now()
		}
	})
	return ok, err
}

func (s *stock) Claim(ctx context.Context, name, task string, order pool.Ref, _ time.Duration) (ok bool, err error) {
	err = s.do(ctx, "claim "+task, func() {
		holder, taken := s.claims[name+"/"+task]
		if ok = !taken || holder == order; ok {
			s.claims[name+"/"+task] = order
		}
	})
	return ok, err
}

func (s *stock) Submitted(ctx context.Context, order pool.Ref, task string) (ok bool, err error) {
	err = s.do(ctx, "store "+task, func() {
		if e := s.orders[order]; e != nil {
			ok, e.state, e.task, e.stolen = true, pool.Bought, task, false
		}
	})
	return ok, err
}

func (s *stock) Unknown(ctx context.Context, order pool.Ref, _ time.Duration) (ok bool, err error) {
	err = s.do(ctx, "unknown", func() {
		if e := s.mine(order); e != nil && e.state != pool.Bought {
			ok, e.state = true, pool.Unknown
		}
	})
	return ok, err
}

// ending is who may end an order.
func (s *stock) ending(order pool.Ref, callback bool) pool.Ending {
	switch e := s.orders[order]; {
	case e == nil:
		return pool.Gone
	case e.stolen && !callback:
		return pool.Stolen
	}
	return pool.Ended
}

func (s *stock) Settle(ctx context.Context, l pool.Landing) (how pool.Ending, err error) {
	err = s.do(ctx, "settle", func() {
		if how = s.ending(l.Ref, l.Callback); how == pool.Ended {
			delete(s.orders, l.Ref)
			s.landings = append(s.landings, l)
			s.tokens++
		}
	})
	return how, err
}

func (s *stock) Fail(ctx context.Context, f pool.Failure) (how pool.Ending, err error) {
	err = s.do(ctx, fmt.Sprintf("fail bought=%v", f.Bought), func() {
		if how = s.ending(f.Ref, f.Callback); how == pool.Ended {
			delete(s.orders, f.Ref)
			s.told = f.Tell
			if f.Bought {
				s.failed++
			}
		}
	})
	return how, err
}

// record is an order as Find and Adopt tell it.
func (e *entry) record() pool.Record {
	return pool.Record{
		Ref: e.Ref, State: e.state, Task: e.task, Facts: e.Facts,
		Placed: e.placed, Until: e.placed.Add(e.TTL), Unsolved: max(0, e.marked.Sub(e.placed)),
	}
}

func (s *stock) Find(_ context.Context, order pool.Ref) (r pool.Record, there bool, err error) {
	err = s.look(func() {
		if e := s.orders[order]; e != nil {
			r, there = e.record(), true
		}
	})
	return r, there, err
}

func (s *stock) Adopt(_ context.Context, id captcha.ID, orders []string) (adopted []pool.Record, gone []pool.Ref, err error) {
	err = s.look(func() {
		for _, name := range orders {
			ref := pool.Ref{Identity: id, Order: name}
			switch e := s.orders[ref]; {
			case e == nil:
				gone = append(gone, ref)
			case e.ended && e.state != pool.Unknown:
				e.ended, e.stolen = false, false
				adopted = append(adopted, e.record())
			}
		}
	})
	return adopted, gone, err
}

func (s *stock) Renew(_ context.Context, orders []pool.Ref) (lost []pool.Ref, err error) {
	err = s.look(func() {
		for _, ref := range orders {
			if s.mine(ref) == nil {
				lost = append(lost, ref)
			}
		}
	})
	return lost, err
}

func (s *stock) LetGo(ctx context.Context, orders []pool.Ref) error {
	return s.do(ctx, "let go", func() { s.left = append(s.left, orders...) })
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

// change lets a test reach into Redis.
func (s *stock) change(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
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

	pingback string           // of the last submit
	polled   captcha.Identity // of the last poll
	report   func() error
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

func (s *seat) Submit(ctx context.Context, _ captcha.Identity, pingback string) (string, error) {
	s.mu.Lock()
	s.pingback = pingback
	s.mu.Unlock()
	s.add("submit")
	return s.submit(ctx)
}

func (s *seat) Report(_ context.Context, task string, _ captcha.Type, good bool) error {
	s.add("report %s %v", task, good)
	if s.report == nil {
		return nil
	}
	return s.report()
}

func (s *seat) ReportWindow() time.Duration { return time.Minute }

func (s *seat) Poll(ctx context.Context, task string, id captcha.Identity) (provider.Solution, error) {
	s.mu.Lock()
	s.polled = id
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

func (w witness) Callback(outcome string) { w.add("callback %s", outcome) }
func (w witness) Letter(outcome string)   { w.add("letter %s", outcome) }
func (w witness) Report(name, outcome string) {
	w.add("report to %s: %s", name, outcome)
}

// shop is a desk with one provider and its doubles.
type shop struct {
	*ledger
	stock *stock
	seat  *seat
	desk  *Desk
}

func newShop(concurrency int) *shop { return newShopWith(concurrency, "no letters") }

// newShopWith is a shop with a folder for letters.
func newShopWith(concurrency int, letters string) *shop {
	l := &ledger{}
	s := &shop{ledger: l, stock: newStock(l), seat: newSeat(l, "one")}
	s.desk = NewDesk(s.stock, letters, witness{l}, quiet())
	s.desk.SetProviders([]Entry{{Provider: s.seat, Concurrency: concurrency}})
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
	slot, err := s.desk.Admit(t.Context(), Bid{})
	if err != nil {
		t.Fatal(err)
	}
	o, err := s.desk.Place(t.Context(), slot, spec())
	if err != nil {
		t.Fatal(err)
	}
	s.forget()
	return o
}

// collecting sees an order through in the background, and returns when that waits
// for something.
func (s *shop) collecting(t *testing.T, o *Order) <-chan error {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- s.desk.Collect(t.Context(), o) }()
	synctest.Wait()
	return ended
}

// running runs the desk until the function that it returns is called.
func (s *shop) running(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.desk.Run(ctx) }()
	synctest.Wait()
	return func() {
		t.Helper()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	}
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
