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
	// sweepEvery, and up to as much again, passes between two looks for what no event
	// told of: orders that count as lost, and what a replica that died has left.
	sweepEvery = 30 * time.Second
	// mostAtOnce is how many identities are looked at in one exchange.
	mostAtOnce = 100
)

// retries are the pauses between two attempts at a store that does not answer.
var retries = backoff.Doubling{First: time.Second, Most: 30 * time.Second}

// Outbox is where the ends of orders are left: pool.Endings.
type Outbox interface {
	Kept(ctx context.Context, ids []captcha.ID, most int) (kept []pool.EndedOrder, unread map[captcha.ID]error, err error)
	Forget(ctx context.Context, orders []pool.EndedOrder) error
	Sweep(ctx context.Context) ([]captcha.ID, error)
}

// Writer is the part of a Store that a Sender needs.
type Writer interface {
	Write(ctx context.Context, batch []Record) error
}

// Health is how a Sender is doing.
type Health struct {
	Down    string    // why the store takes nothing now; "" = it does, as far as is known
	Since   time.Time // then that began
	Sent    int64     // records that the store took from this process
	Dropped int64     // records that it refused for what is in them
	// Unread are identities whose ends cannot be read from Redis, and so are not sent.
	Unread int
	Why    string // why one of them cannot be read; "" = there is none
}

// Sender brings the ends of orders to a store.
type Sender struct {
	from     Outbox
	to       Writer
	log      *slog.Logger
	bell     chan struct{} // of one: something is due
	mu       sync.Mutex
	due      map[captcha.ID]bool
	unread   map[captcha.ID]error // identities that are set aside until a sweep finds them readable
	health   Health
	failures int // Run's: attempts in a row at a store that does not answer
}

// NewSender returns a sender that does nothing before Run.
func NewSender(from Outbox, to Writer, log *slog.Logger) *Sender {
	return &Sender{from: from, to: to, log: log, bell: make(chan struct{}, 1), due: map[captcha.ID]bool{}, unread: map[captcha.ID]error{}}
}

// Ended says that an order of an identity ended here. It does not block.
func (s *Sender) Ended(id captcha.ID) {
	s.mu.Lock()
	s.due[id] = true
	s.mu.Unlock()
	select {
	case s.bell <- struct{}{}:
	default:
	}
}

// Health does not block.
func (s *Sender) Health() Health {
	s.mu.Lock()
	defer s.mu.Unlock()
	health := s.health
	health.Unread = len(s.unread)
	for _, err := range s.unread {
		if why := err.Error(); health.Why == "" || why < health.Why { // the same one each time
			health.Why = why
		}
	}
	return health
}

// Run sends until ctx ends. What is left by then stays where it is, for any replica.
func (s *Sender) Run(ctx context.Context) error {
	sweep := time.NewTimer(backoff.UpTo(sweepEvery))
	defer sweep.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.bell:
		case <-sweep.C:
			_ = panics.Contain(s.log, "panic while sending the history", func() { s.sweep(ctx) })
			sweep.Reset(sweepEvery + backoff.UpTo(sweepEvery))
		}
		_ = panics.Contain(s.log, "panic while sending the history", func() { s.sendAll(ctx) })
	}
}

func (s *Sender) sweep(ctx context.Context) {
	found, err := s.from.Sweep(ctx)
	if err != nil && ctx.Err() == nil {
		s.log.DebugContext(ctx, "the ends of orders were not looked for", "err", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range found {
		s.due[id] = true
	}
}

// sendAll sends until nothing is due.
func (s *Sender) sendAll(ctx context.Context) {
	for ctx.Err() == nil {
		ids := s.take()
		if len(ids) == 0 {
			return
		}
		again, err := s.send(ctx, ids)
		s.mu.Lock()
		for _, id := range again {
			s.due[id] = true
		}
		s.mu.Unlock()
		if ctx.Err() != nil {
			return // that it was cut off is no fault of the store
		}
		s.turn(err)
		if err != nil {
			s.failures++
			_ = retries.Wait(ctx, s.failures)
		}
	}
}

// take takes some of the identities that are due.
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

// send sends what is kept of some identities, and returns those of which there may be
// more.
func (s *Sender) send(ctx context.Context, ids []captcha.ID) (again []captcha.ID, err error) {
	kept, unread, failed := s.from.Kept(ctx, ids, MostBatch)
	s.setAside(ids, unread, failed)
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

// setAside notes which of some identities cannot be read. The others must not wait for
// them; a sweep finds them again. failed: of some it is not known.
func (s *Sender) setAside(ids []captcha.ID, unread map[captcha.ID]error, failed error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		err, is := unread[id]
		_, was := s.unread[id]
		switch {
		case is:
			s.unread[id] = err
			if !was {
				s.log.Error("the ends of an identity's orders cannot be read and are not in the history", "identity", id, "err", err)
			}
		case was && failed == nil:
			delete(s.unread, id)
			s.log.Info("the ends of an identity's orders can be read again", "identity", id)
		}
	}
}

// sendBatch writes orders to the store and forgets them.
func (s *Sender) sendBatch(ctx context.Context, orders []pool.EndedOrder) error {
	records := make([]Record, 0, len(orders))
	for _, order := range orders {
		if err := order.Unreadable; err != nil { // its record has the facts that were read
			s.log.Error("the facts of an order cannot be read", "order", order.String(), "err", err)
		}
		records = append(records, recordOf(order))
	}
	sent, err := s.write(ctx, records)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.health.Sent += int64(sent)
	s.health.Dropped += int64(len(records) - sent)
	s.mu.Unlock()
	return s.from.Forget(ctx, orders)
}

// write writes records. One that the store refuses for what is in it must not hold up the
// others: it is dropped.
func (s *Sender) write(ctx context.Context, records []Record) (sent int, err error) {
	err = s.to.Write(ctx, records)
	if err == nil || errors.Is(err, ErrDown) || errors.Is(err, redisdb.ErrDown) || ctx.Err() != nil {
		return len(records), err
	}
	if len(records) == 1 {
		s.log.Error("the history refuses a record, which is dropped", "order", records[0].ID, "err", err)
		return 0, nil
	}
	for _, half := range [][]Record{records[:len(records)/2], records[len(records)/2:]} {
		n, err := s.write(ctx, half)
		if err != nil {
			return 0, err
		}
		sent += n
	}
	return sent, nil
}

// recordOf returns the record of an order that ended.
func recordOf(o pool.EndedOrder) Record {
	wanted := o.Facts.Identity
	r := Record{
		ID: o.String(), Identity: o.Identity, Target: o.Facts.Target, Owner: o.Facts.Owner,
		Type: wanted.Type, Sitekey: wanted.Site(), Pageurl: wanted.Pageurl,
		Provider: cmp.Or(o.Provider, o.Facts.Provider), Task: o.Task, How: How(o.How), Code: o.Code,
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

// turn notes whether the store serves, and logs each change. What is wrong with Redis
// is told by pool.
func (s *Sender) turn(err error) {
	if errors.Is(err, redisdb.ErrDown) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.health.Down
	if err == nil {
		s.health.Down, s.failures = "", 0
		if was != "" {
			s.log.Info("the history is written again", "after", time.Since(s.health.Since).Round(time.Second))
		}
		return
	}
	s.health.Down = err.Error()
	if was == "" {
		s.health.Since = time.Now()
		s.log.Warn("the history cannot be written; what ends meanwhile is kept in Redis", "err", err)
	}
}
