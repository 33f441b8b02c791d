package purchase

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/provider"

	"golang.org/x/sync/errgroup"
)

const (
	// An admission looks at the providers again at least this often, because
	// their state can change without anybody telling the desk.
	lookAgain = time.Second
	// and at most this often, where a provider names no delay.
	lookSoonest = 50 * time.Millisecond
	// fullFor is how long a provider that other replicas have filled is left
	// alone before one order asks again.
	fullFor = 200 * time.Millisecond
)

// Desk buys for all targets of this replica. It is safe for concurrent use.
type Desk struct {
	stock   Stock
	orders  errgroup.Group // sees them through
	observe Observer
	log     *slog.Logger

	line   line          // who is admitted next
	newcom chan struct{} // wakes Run when a provider came

	letters   *letterBox
	replaying chan struct{}            // holds one while letters are replayed
	stuck     map[captcha.ID]time.Time // since when Redis takes no letters of an identity; belongs to who replays
	reports   chan report              // to be passed on

	mu        sync.Mutex
	sellers   []*seller                    // in the order in which they are tried
	deaf      bool                         // takes no reports any more
	trouble   bool                         // with the folder of the letters; told once
	perDay    int                          // the budget over all targets; 0 = none
	leftovers []leftover                   // orders to be taken back again
	held      map[pool.Ref]*Order          // those that this replica sees through
	orphans   map[place]time.Time          // places without an order, since when
	former    []*seller                    // that went from the list, for orders that others placed there
	stranded  map[place]strandedOrder      // orders that nobody can ask about
	secrets   map[string][]captcha.Secret  // of callbacks, by provider; also of those that went
	arrivals  map[pool.Ref]time.Time       // of callbacks that could not be delivered: the first
	lives     map[captcha.ID]time.Duration // how long tokens of an identity live
	changed   chan struct{}                // closed and replaced when a slot is freed or the list changes
}

// seller is one provider of the list and its slots on this replica. All but
// the provider is guarded by Desk.mu.
type seller struct {
	Provider

	account     string    // "" = nobody knows
	concurrency int       // the file's
	callbacks   Callbacks // for the orders to come
	price       func(captcha.Type) float64
	threads     int       // what the provider itself allows; 0 = it does not say
	taken       int       // slots held on this replica
	fullUntil   time.Time // other replicas hold the rest of the places
	asked       bool      // upkeep has been to this provider
	went        time.Time // when it left the list; zero = it stands there
	mute        bool      // threads could not be read; told once
	unanswered  bool      // the last submit had no answer; told once
	unheard     int       // tasks in a row that should have had a callback and had none
}

// silentAfter is how many tasks in a row without their callbacks make it likely
// that none can arrive.
const silentAfter = 3

// silentLocked reports whether callbacks are not worth waiting for. The caller
// holds Desk.mu.
func (s *seller) silentLocked() bool { return s.unheard >= silentAfter }

// heard notes whether a task had the callback that it should have had, and logs
// when that changes what is done.
func (d *Desk) heard(s *seller, came bool) {
	d.mu.Lock()
	before := s.silentLocked()
	if came {
		s.unheard = 0
	} else {
		s.unheard++
	}
	after := s.silentLocked()
	d.mu.Unlock()
	switch {
	case after && !before:
		d.log.Warn("callbacks do not arrive, so tasks are polled as if there were none: is callback_url reachable for the service, and is it the base address alone?",
			"provider", s.Name(), "tasks", silentAfter)
	case before && !after:
		d.log.Info("callbacks arrive again", "provider", s.Name())
	}
}

// limitLocked is the most orders at once: the smaller of the file's number and
// the provider's. The caller holds Desk.mu.
func (s *seller) limitLocked() int {
	if s.threads > 0 {
		return min(s.concurrency, s.threads)
	}
	return s.concurrency
}

// Slot is the right to have one order under way at one provider. The zero
// value is a slot of nobody.
type Slot struct {
	desk   *Desk
	seller *seller
	freed  bool // guarded by Desk.mu
}

// Free gives the slot back; doing so twice is harmless.
func (s *Slot) Free() {
	if s.desk == nil {
		return
	}
	s.desk.mu.Lock()
	defer s.desk.mu.Unlock()
	// Mostly a place in Redis was given back with it, so it is worth asking.
	s.freeLocked(time.Time{})
}

// freeLocked gives the slot back and leaves the seller alone until then. The
// caller holds Desk.mu.
func (s *Slot) freeLocked(fullUntil time.Time) {
	if s.freed {
		return
	}
	s.freed = true
	s.seller.taken--
	s.seller.fullUntil = fullUntil
	s.desk.tellLocked()
}

// NewDesk makes a desk without providers. letters is the folder for callbacks
// that cannot be stored. observe must not be nil.
func NewDesk(stock Stock, letters string, observe Observer, log *slog.Logger) *Desk {
	d := &Desk{
		stock: stock, observe: observe, log: log,
		letters: newLetterBox(letters), replaying: make(chan struct{}, 1), reports: make(chan report, mostReports),
		newcom: make(chan struct{}, 1), changed: make(chan struct{}),
		held: map[pool.Ref]*Order{}, stuck: map[captcha.ID]time.Time{}, orphans: map[place]time.Time{}, stranded: map[place]strandedOrder{},
		secrets: map[string][]captcha.Secret{}, arrivals: map[pool.Ref]time.Time{}, lives: map[captcha.ID]time.Duration{},
	}
	d.orders.SetLimit(mostOrders)
	return d
}

// SetBudget sets how many solves may be bought over all targets and replicas
// within 24 h; 0 = no cap.
func (d *Desk) SetBudget(perDay int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.perDay = perDay
}

// Booked tells how much of that budget is used, and what it is.
func (d *Desk) Booked(ctx context.Context) (used, perDay int, err error) {
	d.mu.Lock()
	perDay = d.perDay
	d.mu.Unlock()
	if perDay == 0 {
		return 0, 0, nil
	}
	used, err = d.stock.Booked(ctx)
	return used, perDay, err
}

// SetProviders replaces the list, in the order in which providers are tried.
// A provider that stays, the same value, keeps its slots and what is known of
// it; orders at one that goes are finished with it, also those that other replicas
// placed there.
func (d *Desk) SetProviders(entries []Entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	old := d.sellers
	d.sellers = make([]*seller, 0, len(entries))
	for _, e := range entries {
		i := slices.IndexFunc(old, func(s *seller) bool { return s.Provider == e.Provider })
		s := &seller{Provider: e.Provider}
		if i >= 0 {
			s = old[i]
		}
		s.account, s.went = e.Account, time.Time{}
		s.concurrency, s.callbacks, s.price = max(1, e.Concurrency), e.Callbacks, e.Price
		if s.price == nil {
			s.price = func(captcha.Type) float64 { return 0 }
		}
		d.rememberLocked(s.Name(), e.Callbacks.Secrets)
		d.sellers = append(d.sellers, s)
	}
	d.seeOffLocked(old, time.Now())
	d.tellLocked()
	select {
	case d.newcom <- struct{}{}:
	default: // Run is going to look anyway
	}
}

// tellLocked wakes the admission that waits for a change.
func (d *Desk) tellLocked() {
	close(d.changed)
	d.changed = make(chan struct{})
}

// Admit waits for a slot at the first provider that is ready; while that one is
// full it waits for it, while it is down the next one is asked. Where several
// wait, the slot goes to the best bid, and every fairTurn-th one to who has waited
// longest. It fails with ErrNoProvider where the list is empty and with ctx's
// error; who waits long should give up, and come back with a bid of the day. The
// caller must hand the slot to Buy or free it.
func (d *Desk) Admit(ctx context.Context, bid Bid) (*Slot, error) {
	for {
		if slot, err := d.serve(ctx, bid); slot != nil || err != nil {
			return slot, err
		}
	}
}

// serve waits for the caller's turn and then for a slot. It answers nil where the
// next one has become another's.
func (d *Desk) serve(ctx context.Context, bid Bid) (*Slot, error) {
	if err := d.line.enter(ctx, bid); err != nil {
		return nil, err
	}
	defer d.line.leave()
	for {
		// Before a provider is asked: its answer may be the one probe of the minute.
		if !d.line.first(bid) {
			return nil, nil
		}
		at := time.Now()
		offers, changed := d.offers(at)
		if len(offers) == 0 {
			return nil, ErrNoProvider
		}
		chosen, wait := choose(offers, at)
		if chosen != nil {
			d.line.placed()
			return d.take(chosen), nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
}

// offer is a seller as an admission saw it, so that the provider is asked
// without the desk's lock held.
type offer struct {
	*seller
	full  bool
	after time.Duration // full: how long until it is worth looking again
}

// offers lists the sellers and the channel that tells of the next change.
func (d *Desk) offers(at time.Time) ([]offer, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	offers := make([]offer, len(d.sellers))
	for i, s := range d.sellers {
		offers[i] = offer{seller: s}
		if s.taken >= s.limitLocked() {
			offers[i].full, offers[i].after = true, lookAgain
		} else if wait := s.fullUntil.Sub(at); wait > 0 {
			offers[i].full, offers[i].after = true, wait
		}
	}
	return offers, d.changed
}

// choose picks the first seller that is ready and not full; nil and a time to
// wait where there is none.
func choose(offers []offer, at time.Time) (*seller, time.Duration) {
	wait := lookAgain
	for _, o := range offers {
		if o.full {
			// A full provider is not asked whether it is ready: while it is
			// paused that question hands out its one probe a minute, which
			// would then go unused. One that is well is worth waiting for.
			if o.State(at).Kind == provider.StateOK {
				return nil, min(wait, o.after)
			}
			continue
		}
		ready, after := o.Ready(at)
		if ready {
			return o.seller, 0
		}
		wait = min(wait, max(after, lookSoonest))
	}
	return nil, wait
}

// take books a slot. Only the head of the line takes, so nobody else can have
// filled the seller since it was chosen.
func (d *Desk) take(s *seller) *Slot {
	d.mu.Lock()
	defer d.mu.Unlock()
	s.taken++
	return &Slot{desk: d, seller: s}
}

// Providers tells how the providers of the list are doing. While Redis does
// not answer, InFlight counts this replica's orders alone.
func (d *Desk) Providers(ctx context.Context, at time.Time) []Status {
	d.mu.Lock()
	sellers := slices.Clone(d.sellers)
	list := make([]Status, len(sellers))
	names := make([]string, len(sellers))
	for i, s := range sellers {
		names[i] = s.Name()
		list[i] = Status{Name: names[i], InFlight: s.taken, Concurrency: s.limitLocked(), Silent: s.silentLocked()}
	}
	d.mu.Unlock()
	for i, s := range sellers {
		list[i].State = s.State(at)
	}
	if counts, err := d.stock.InFlight(ctx, names); err == nil && len(counts) == len(list) {
		for i, n := range counts {
			if n >= 0 {
				list[i].InFlight = n
				continue
			}
			// Its places are in a part of Redis that cannot be used, while others can.
			if kind := list[i].State.Kind; kind == provider.StateOK || kind == provider.StateBusy {
				list[i].State.Kind = provider.StatePaused
				list[i].State.Reason = "the count of its orders is on a redis node that cannot be used"
			}
		}
	}
	return list
}

// Pace is the first wait and the poll interval of the provider that would be
// asked now; zero where there is none.
func (d *Desk) Pace(t captcha.Type) (firstPoll, interval time.Duration) {
	likely := d.likely()
	if likely == nil {
		return 0, 0
	}
	return likely.Pace(t)
}

// Concurrency is the most orders at once, over all targets and replicas, at the
// provider that would be asked now; zero where there is none.
func (d *Desk) Concurrency() int {
	likely := d.likely()
	if likely == nil {
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return likely.limitLocked()
}

// likely is the provider that would be asked now; nil where there is none.
func (d *Desk) likely() *seller {
	d.mu.Lock()
	sellers := d.sellers // replaced whole, never changed
	d.mu.Unlock()
	at := time.Now()
	for _, s := range sellers {
		if s.State(at).Kind == provider.StateOK {
			return s
		}
	}
	if len(sellers) == 0 {
		return nil
	}
	return sellers[0]
}
