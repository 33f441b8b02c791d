package refill

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/targets"
)

// shelf is the stock in memory. It judges by the same sentences as Redis'
// scripts and writes down every order that it let through.
type shelf struct {
	mu       sync.Mutex
	changed  func(captcha.ID)
	down     bool // Redis is away
	tokens   map[captcha.ID][]time.Time
	orders   map[captcha.ID]map[string]time.Time // until when they count
	placedAt map[string]time.Time                // when each order was
	unknown  map[string]bool                     // whose fate nobody knows
	records  map[string]pool.Record              // of the orders, for who adopts them
	orphans  map[string]bool                     // orders whose replica is gone
	windows  []pool.Window                       // as they were when told
	told     time.Time
	places   map[string]map[pool.Ref]time.Time
	adopts   int
	minds    map[captcha.ID][]byte
	saves    int
	figures  map[captcha.ID]pool.Figures
	budget   time.Duration // what Place says of the target's budget
	waiting  map[captcha.ID]int
	paused   map[captcha.ID]bool
	leads    map[captcha.ID][]time.Duration
	placings []placing
	looks    map[captcha.ID]int
	failed   int
	strangle chan struct{} // Look waits for it, whatever its ctx says
}

// placing is an order that was let through.
type placing struct {
	pool.Order
	at  time.Time
	sum int // outliving + orders - waiting, before it
}

func newShelf() *shelf {
	return &shelf{
		changed: func(captcha.ID) {}, tokens: map[captcha.ID][]time.Time{},
		orders: map[captcha.ID]map[string]time.Time{}, placedAt: map[string]time.Time{}, places: map[string]map[pool.Ref]time.Time{}, unknown: map[string]bool{}, records: map[string]pool.Record{}, orphans: map[string]bool{}, minds: map[captcha.ID][]byte{}, figures: map[captcha.ID]pool.Figures{},
		waiting: map[captcha.ID]int{}, paused: map[captcha.ID]bool{},
		leads: map[captcha.ID][]time.Duration{}, looks: map[captcha.ID]int{},
	}
}

// enter begins one step; leave must follow where it answers nil.
func (s *shelf) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", pool.ErrDown, err)
	}
	s.mu.Lock()
	if s.down {
		s.mu.Unlock()
		return fmt.Errorf("%w: dial refused", pool.ErrDown)
	}
	return nil
}

// viewLocked counts an identity's stock.
func (s *shelf) viewLocked(id captcha.ID, margin, lead time.Duration) pool.Stock {
	now := time.Now()
	for order, until := range s.orders[id] {
		if !until.After(now) {
			delete(s.orders[id], order)
		}
	}
	s.dropLocked(id, now.Add(margin))
	st := pool.Stock{
		Orders: len(s.orders[id]), Waiting: s.waiting[id], Paused: s.paused[id], NextExpiry: -1, NextLook: -1,
		Leads: append([]time.Duration(nil), s.leads[id]...), Figures: s.figures[id],
	}
	for _, window := range s.windows {
		window.In -= now.Sub(s.told)
		window.Left -= now.Sub(s.told)
		if window.Left > 0 {
			st.Windows = append(st.Windows, window)
		}
	}
	for order := range s.orders[id] {
		st.OrderAges = append(st.OrderAges, now.Sub(s.placedAt[order]))
		if s.unknown[order] {
			st.Unknown++
		}
	}
	slices.SortFunc(st.OrderAges, func(a, b time.Duration) int { return int(b - a) })
	for _, dies := range s.tokens[id] {
		left := dies.Sub(now) - margin
		st.Fresh++
		if st.NextExpiry < 0 || left < st.NextExpiry {
			st.NextExpiry = left
		}
		if left > lead {
			st.Outliving++
			if look := left - lead; st.NextLook < 0 || look < st.NextLook {
				st.NextLook = look
			}
		}
	}
	return st
}

// dropLocked throws tokens away that die before then.
func (s *shelf) dropLocked(id captcha.ID, then time.Time) {
	had := len(s.tokens[id])
	s.tokens[id] = slices.DeleteFunc(s.tokens[id], func(dies time.Time) bool { return dies.Before(then) })
	f := s.figures[id]
	f.Expired += int64(had - len(s.tokens[id]))
	s.figures[id] = f
}

func (s *shelf) Look(ctx context.Context, id captcha.ID, margin, lead time.Duration) (pool.Stock, error) {
	s.mu.Lock()
	strangle := s.strangle
	s.looks[id]++
	s.mu.Unlock()
	if strangle != nil {
		<-strangle
	}
	if err := s.enter(ctx); err != nil {
		return pool.Stock{}, err
	}
	defer s.mu.Unlock()
	return s.viewLocked(id, margin, lead), nil
}

func (s *shelf) Recall(ctx context.Context, id captcha.ID) ([]byte, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	return s.minds[id], nil
}

func (s *shelf) Remember(ctx context.Context, id captcha.ID, learned []byte) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	s.minds[id] = learned
	s.saves++
	return nil
}

func (s *shelf) Place(ctx context.Context, o pool.Order) (pool.Placing, error) {
	if err := s.enter(ctx); err != nil {
		return pool.Placing{}, err
	}
	defer s.mu.Unlock()
	st := s.viewLocked(o.Identity, o.Margin, o.Lead)
	sum := st.Outliving + st.Orders - st.Waiting
	if st.Paused || sum >= o.Depth {
		return pool.Placing{Paused: st.Paused}, nil
	}
	if s.budget > 0 {
		return pool.Placing{BudgetWait: s.budget}, nil
	}
	if wait := s.budgetWaitLocked(o.Identity, o.PerHour); wait > 0 {
		return pool.Placing{BudgetWait: wait}, nil
	}
	if s.orders[o.Identity] == nil {
		s.orders[o.Identity] = map[string]time.Time{}
	}
	s.orders[o.Identity][o.Order] = time.Now().Add(o.TTL)
	s.placedAt[o.Order] = time.Now()
	s.records[o.Order] = pool.Record{Ref: o.Ref, State: pool.Intent, Facts: o.Facts, Placed: time.Now(), Until: time.Now().Add(o.TTL)}
	s.placings = append(s.placings, placing{o, time.Now(), sum})
	return pool.Placing{Placed: true}, nil
}

// budgetWaitLocked is how long it takes until an hour's budget has room again.
func (s *shelf) budgetWaitLocked(id captcha.ID, perHour int) time.Duration {
	var within []time.Time
	for _, p := range s.placings {
		if p.Identity == id && time.Since(p.at) < time.Hour {
			within = append(within, p.at)
		}
	}
	if perHour == 0 || len(within) < perHour {
		return 0
	}
	return time.Hour - time.Since(within[len(within)-perHour])
}

func (s *shelf) Reserve(ctx context.Context, name string, order pool.Ref, limit int, ttl time.Duration) (bool, pool.Moment, error) {
	if err := s.enter(ctx); err != nil {
		return false, 0, err
	}
	defer s.mu.Unlock()
	if s.places[name] == nil {
		s.places[name] = map[pool.Ref]time.Time{}
	}
	for other, until := range s.places[name] {
		if !until.After(time.Now()) {
			delete(s.places[name], other)
		}
	}
	if len(s.places[name]) >= limit {
		return false, 0, nil
	}
	s.places[name][order] = time.Now().Add(ttl)
	return true, 0, nil
}

func (s *shelf) Release(ctx context.Context, name string, order pool.Ref) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	delete(s.places[name], order)
	return nil
}

func (s *shelf) Places(ctx context.Context, name string) (refs []pool.Ref, err error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	s.adopts++
	for ref := range s.places[name] {
		refs = append(refs, ref)
	}
	return refs, nil
}

func (s *shelf) InFlight(context.Context, []string) ([]int, error) {
	return nil, errors.New("not used")
}

func (s *shelf) Book(context.Context, pool.Ref, int, pool.Moment) (time.Duration, error) {
	return 0, nil
}
func (s *shelf) Refund(context.Context, pool.Ref) error { return nil }
func (s *shelf) Booked(context.Context) (int, error)    { return 0, nil }

// stands reports whether an order is there; change is carried out with it.
func (s *shelf) stands(ctx context.Context, order pool.Ref, change func()) (bool, error) {
	if err := s.enter(ctx); err != nil {
		return false, err
	}
	defer s.mu.Unlock()
	_, there := s.orders[order.Identity][order.Order]
	if there {
		change()
	}
	return there, nil
}

func (s *shelf) Mark(ctx context.Context, order pool.Ref) (bool, error) {
	return s.stands(ctx, order, func() {})
}

func (s *shelf) Claim(context.Context, string, string, pool.Ref, time.Duration) (bool, error) {
	return true, nil
}

func (s *shelf) Submitted(ctx context.Context, order pool.Ref, task string) (bool, error) {
	return s.stands(ctx, order, func() {
		r := s.records[order.Order]
		r.State, r.Task = pool.Bought, task
		s.records[order.Order] = r
	})
}

func (s *shelf) Unknown(ctx context.Context, order pool.Ref, hold time.Duration) (bool, error) {
	return s.stands(ctx, order, func() {
		s.unknown[order.Order] = true
		s.orders[order.Identity][order.Order] = time.Now().Add(hold)
	})
}

func (s *shelf) Settle(ctx context.Context, l pool.Landing) (pool.Ending, error) {
	there, err := s.stands(ctx, l.Ref, func() {
		delete(s.orders[l.Identity], l.Order)
		s.tokens[l.Identity] = append(s.tokens[l.Identity], s.placedAt[l.Order].Add(l.SincePlaced+l.Lifetime))
		f := s.figures[l.Identity]
		f.Solved++
		s.figures[l.Identity] = f
		s.leads[l.Identity] = append([]time.Duration{l.Lead}, s.leads[l.Identity]...)
		s.leads[l.Identity] = s.leads[l.Identity][:min(48, len(s.leads[l.Identity]))]
	})
	s.changed(l.Identity)
	return ending(there), err
}

func (s *shelf) Fail(ctx context.Context, f pool.Failure) (pool.Ending, error) {
	there, err := s.stands(ctx, f.Ref, func() {
		delete(s.orders[f.Identity], f.Order)
		if f.Bought {
			s.failed++
			figures := s.figures[f.Identity]
			figures.Failed++
			s.figures[f.Identity] = figures
		}
	})
	s.changed(f.Identity)
	return ending(there), err
}

func ending(there bool) pool.Ending {
	if there {
		return pool.Ended
	}
	return pool.Gone
}

func (s *shelf) Find(context.Context, pool.Ref) (pool.Record, bool, error) {
	return pool.Record{}, false, errors.New("not used")
}

// Adopt gives away the orders whose replica is gone.
func (s *shelf) Adopt(ctx context.Context, id captcha.ID, orders []string) (records []pool.Record, gone []pool.Ref, err error) {
	if err := s.enter(ctx); err != nil {
		return nil, nil, err
	}
	defer s.mu.Unlock()
	for _, order := range orders {
		if _, there := s.orders[id][order]; there && s.orphans[order] {
			delete(s.orphans, order)
			records = append(records, s.records[order])
		}
	}
	return records, nil, nil
}

func (s *shelf) Renew(context.Context, []pool.Ref) ([]pool.Ref, error) { return nil, nil }

func (s *shelf) LetGo(ctx context.Context, orders []pool.Ref) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	for _, ref := range orders {
		s.orphans[ref.Order] = true
	}
	return nil
}

// take hands out the oldest fresh token.
func (s *shelf) take(t targets.Target) bool {
	s.mu.Lock()
	defer s.changed(t.ID)
	defer s.mu.Unlock()
	s.dropLocked(t.ID, time.Now().Add(t.Margin))
	f := s.figures[t.ID]
	defer func() { s.figures[t.ID] = f }()
	f.Requests++
	list := s.tokens[t.ID]
	if len(list) == 0 {
		f.Misses++
		return false
	}
	// The list is in the order of landing.
	oldest := slices.IndexFunc(list, func(dies time.Time) bool { return dies.Equal(slices.MinFunc(list, time.Time.Compare)) })
	s.tokens[t.ID] = slices.Delete(list, oldest, oldest+1)
	f.Hits++
	return true
}

// fresh is how many tokens a target has.
func (s *shelf) fresh(t targets.Target) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.viewLocked(t.ID, t.Margin, 0).Fresh
}

// held is how many tokens and orders a target has.
func (s *shelf) held(t targets.Target) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	stock := s.viewLocked(t.ID, t.Margin, 0)
	return stock.Fresh + stock.Orders
}

// with changes the shelf under its lock.
func (s *shelf) with(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *shelf) lookCount(id captcha.ID) (one, all int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.looks {
		all += n
	}
	return s.looks[id], all
}

func (s *shelf) placed() []placing {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]placing(nil), s.placings...)
}
