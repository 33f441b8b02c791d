package history

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"poold/internal/backoff"
	"poold/internal/captcha"
	"poold/internal/panics"
	"poold/internal/pool"
	"poold/internal/redisdb"
)

const (
	// sweepEvery is the minimum interval between two sweeps. A sweep finds lost orders, and outboxes
	// that dead replicas left behind.
	sweepEvery = 30 * time.Second
	// mostAtOnce limits the identities in one round trip to Redis.
	mostAtOnce = 100
)

// Outbox keeps ended orders until a Sender has sent them; *pool.Endings implements it.
type Outbox interface {
	Kept(ctx context.Context, ids []captcha.ID, most int) (kept []pool.EndedOrder, err error)
	Forget(ctx context.Context, orders []pool.EndedOrder) error
	Sweep(ctx context.Context) ([]captcha.ID, error)
}

// Writer is the part of a Store that a Sender needs.
type Writer interface {
	Write(ctx context.Context, batch []Record) error
}

// Health is the state of a Sender.
type Health struct {
	Down    string    // why the store does not respond; "" = the last attempt succeeded
	Since   time.Time // time of the first failure after the last success, if Down is not ""
	Sent    int64     // records that this process has written to the store
	Dropped int64     // records whose content the store refused
}

// Sender copies ended orders to a store.
type Sender struct {
	from Outbox
	to   Writer
	log  *slog.Logger
	bell chan struct{} // signals that the map due is not empty; capacity 1
	down outage

	mu            sync.Mutex
	due           map[captcha.ID]bool
	sent, dropped int64
}

// NewSender returns a Sender. It sends nothing before Run is called.
func NewSender(from Outbox, to Writer, log *slog.Logger) *Sender {
	return &Sender{
		from: from, to: to, log: log, bell: make(chan struct{}, 1), due: map[captcha.ID]bool{},
		down: outage{log: log, began: "the history cannot be written; Redis keeps the ended orders meanwhile", ended: "the history is written again"},
	}
}

// Ended tells the Sender that an order of an identity ended at this replica. It does not block.
func (s *Sender) Ended(id captcha.ID) {
	s.add(id)
	select {
	case s.bell <- struct{}{}:
	default:
	}
}

// add marks identities as due, so that sendAll sends their ended orders.
func (s *Sender) add(ids ...captcha.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		s.due[id] = true
	}
}

// Health returns the state of the Sender. It does not block.
func (s *Sender) Health() Health {
	s.mu.Lock()
	defer s.mu.Unlock()
	health := Health{Sent: s.sent, Dropped: s.dropped}
	health.Down, health.Since = s.down.state()
	return health
}

// Run sends ended orders until ctx ends. Unsent orders stay in the outbox in Redis, and any replica
// can send them.
func (s *Sender) Run(ctx context.Context) error {
	sweep := time.NewTimer(backoff.UpTo(sweepEvery))
	defer sweep.Stop()
	for {
		sweeps := true
		select {
		case <-ctx.Done():
			return nil
		case <-s.bell:
			sweeps = false
		case <-sweep.C:
			sweep.Reset(sweepEvery + backoff.UpTo(sweepEvery))
		}
		_ = panics.Contain(s.log, "panic while sending the history", func() {
			if sweeps {
				s.sweep(ctx)
			}
			s.sendAll(ctx)
		})
	}
}

func (s *Sender) sweep(ctx context.Context) {
	found, err := s.from.Sweep(ctx)
	if err != nil && ctx.Err() == nil {
		s.log.DebugContext(ctx, "the sweep for ended orders failed", "err", err)
	}
	s.add(found...)
}

// sendAll sends ended orders until no identity is due.
func (s *Sender) sendAll(ctx context.Context) {
	for ctx.Err() == nil {
		ids := s.take()
		if len(ids) == 0 {
			return
		}
		again, err := s.send(ctx, ids)
		s.add(again...)
		if ctx.Err() != nil {
			return // the end of ctx is not a fault of the store
		}
		if !errors.Is(err, redisdb.ErrDown) { // package pool logs outages of Redis
			s.down.note(err)
		}
		if err != nil {
			s.down.wait(ctx)
		}
	}
}

// take removes up to mostAtOnce due identities and returns them.
func (s *Sender) take() []captcha.ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := make([]captcha.ID, 0, min(len(s.due), mostAtOnce))
	for id := range s.due {
		if len(ids) == mostAtOnce {
			break
		}
		ids = append(ids, id)
		delete(s.due, id)
	}
	return ids
}

// send sends the ended orders of identities. It returns the identities that may have more ended orders.
func (s *Sender) send(ctx context.Context, ids []captcha.ID) (again []captcha.ID, err error) {
	kept, failed := s.from.Kept(ctx, ids, MostBatch)
	count := map[captcha.ID]int{}
	for _, order := range kept {
		if count[order.Identity]++; count[order.Identity] == MostBatch {
			again = append(again, order.Identity)
		}
	}
	for len(kept) > 0 {
		batch := kept[:min(len(kept), MostBatch)]
		if err := s.sendBatch(ctx, batch); err != nil {
			return ids, err
		}
		kept = kept[len(batch):]
	}
	if failed != nil {
		return ids, failed
	}
	return again, nil
}

// sendBatch writes orders to the store and removes them from the outbox.
func (s *Sender) sendBatch(ctx context.Context, orders []pool.EndedOrder) error {
	records := make([]Record, 0, len(orders))
	for _, order := range orders {
		if err := order.Unreadable; err != nil { // the record contains all facts of the order that can be read
			s.log.Error("the facts of an order cannot be read", "order", order.String(), "err", err)
		}
		records = append(records, recordOf(order))
	}
	dropped := 0
	if err := writeParts(ctx, records, s.to.Write, func(r Record, err error) {
		dropped++
		s.log.Error("the history refuses a record, which is dropped", "order", r.ID, "err", err)
	}); err != nil {
		return err
	}
	s.mu.Lock()
	s.sent += int64(len(records) - dropped)
	s.dropped += int64(dropped)
	s.mu.Unlock()
	return s.from.Forget(ctx, orders)
}

func recordOf(o pool.EndedOrder) Record {
	wanted := o.Facts.Identity
	r := Record{
		ID: o.String(), Identity: o.Identity, Target: o.Facts.Target, Owner: o.Facts.Owner,
		Type: wanted.Type, Sitekey: wanted.Site(), Pageurl: wanted.Pageurl,
		Provider: cmp.Or(o.Provider, o.Facts.Provider), Choice: o.Facts.Choice, Task: o.Task, How: How(o.How), Code: o.Code,
		Placed: o.Placed, Submitted: o.Submitted, Solved: o.Solved, Ended: o.Ended,
		Polls: o.Polls, Callback: o.Callback, Price: o.Price,
	}
	if r.How == Lost && r.Code == "" {
		r.Code = pool.CodeTimeout
	}
	if !r.Costs() {
		r.Price = 0
	}
	return r
}
