package history

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"poold/internal/panics"
	"poold/internal/pool"
	"poold/internal/purchase"
)

const (
	// lookEvery is how often a Sender looks for the rows of dead replicas.
	lookEvery = 5 * time.Second
	// turnEvery is how soon a Sender tries again while another replica is sending.
	turnEvery = time.Second
	// doneTime limits the removal of rows after the end of Run's context.
	doneTime = 2 * time.Second
)

// Outbox keeps the rows of orders until a Sender has sent them; *pool.Pool implements it.
type Outbox interface {
	Rows(ctx context.Context, stream string, most int) (list []pool.Row, mine bool, err error)
	Done(ctx context.Context, stream string, ids []string) error
}

// Writer is the part of a Store that a Sender needs.
type Writer interface {
	Write(ctx context.Context, batch []Record) error
}

// ActiveStore publishes the orders in flight for programs that read the store. The daemon itself reads the
// journal in Redis. An order that ends soon after its purchase may never be published. The store drops old
// orders by itself.
type ActiveStore interface {
	// PutActive publishes orders. It ignores the fields that only an ended order has. The IDs of the
	// orders must differ.
	PutActive(ctx context.Context, orders []Record) error
	// RemoveActive removes published orders. It ignores unknown IDs.
	RemoveActive(ctx context.Context, ids []string) error
}

// Health is the state of a Sender.
type Health struct {
	Down    string    // why the store does not respond; "" = the last attempt succeeded
	Since   time.Time // time of the first failure after the last success, if Down is not ""
	Sent    int64     // records that this process has written to the store
	Dropped int64     // records whose content the store refused
}

// Sender copies orders from the outbox to a store. The Senders of all replicas take turns.
type Sender struct {
	from   Outbox
	to     Writer
	active ActiveStore // nil = the orders in flight are not published
	log    *slog.Logger
	bell   chan struct{} // signals that an order has ended; capacity 1
	down   outage

	mu            sync.Mutex
	sent, dropped int64
}

// NewSender returns a Sender. It sends nothing before Run is called. If active is nil, the orders in flight
// are not published.
func NewSender(from Outbox, to Writer, active ActiveStore, log *slog.Logger) *Sender {
	return &Sender{
		from: from, to: to, active: active, log: log, bell: make(chan struct{}, 1),
		down: outage{log: log, began: "the history cannot be written; Redis keeps the ended orders meanwhile", ended: "the history is written again"},
	}
}

// Ended tells the Sender that an order ended at this replica. It does not block.
func (s *Sender) Ended() {
	select {
	case s.bell <- struct{}{}:
	default:
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

// Run sends rows until ctx ends. The others stay in Redis, and any replica can send them.
func (s *Sender) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		pause := lookEvery
		_ = panics.Contain(s.log, "panic while sending the history", func() { pause = s.send(ctx) })
		bell := s.bell
		if pause != lookEvery {
			bell = nil
		}
		select {
		case <-ctx.Done():
		case <-bell:
		case <-time.After(pause):
		}
	}
	return nil
}

// send sends the oldest rows. It returns the pause before the next call, which the bell ends if it is lookEvery.
func (s *Sender) send(ctx context.Context) (pause time.Duration) {
	rows, mine, err := s.from.Rows(ctx, pool.Ends, MostBatch)
	switch {
	case err != nil: // package redisdb logs outages of Redis
		return retries.First
	case !mine:
		return turnEvery
	}
	if err = s.write(ctx, rows); ctx.Err() == nil { // the end of ctx is not a fault of the store
		s.down.note(err)
	}
	if len(rows) == 0 {
		return lookEvery
	}
	var sent []string
	if err == nil {
		for _, r := range rows {
			sent = append(sent, r.ID)
		}
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), doneTime)
	defer cancel()
	if failed := s.from.Done(limited, pool.Ends, sent); failed != nil && err == nil {
		return retries.First // the rows are sent again
	}
	switch {
	case err != nil:
		return s.down.pause()
	case len(rows) < MostBatch:
		return lookEvery
	}
	return 0
}

// write writes rows to the store.
func (s *Sender) write(ctx context.Context, rows []pool.Row) error {
	var records []Record
	var ended []string
	begun, dropped := map[string]Record{}, 0
	for i := range rows {
		r, err := recordOf(&rows[i])
		switch {
		case err != nil:
			dropped++
			s.log.Error("the history cannot read an order, which is dropped", "order", r.ID, "err", err)
		case rows[i].Kind == pool.Opened:
			begun[r.ID] = r
		default:
			delete(begun, r.ID)
			ended = append(ended, r.ID)
			records = append(records, r)
		}
	}
	written := len(records)
	if err := writeParts(ctx, records, s.to.Write, func(r Record, err error) {
		written, dropped = written-1, dropped+1
		s.log.Error("the history refuses a record, which is dropped", "order", r.ID, "err", err)
	}); err != nil {
		return err
	}
	if s.active != nil {
		if err := s.active.PutActive(ctx, slices.Collect(maps.Values(begun))); err != nil {
			return err
		}
		if err := s.active.RemoveActive(ctx, ended); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent += int64(written)
	s.dropped += int64(dropped)
	return nil
}

// hows are the ends of orders. Other orders have no record: nothing was submitted.
var hows = map[string]How{
	string(pool.Solved): Solved, pool.Expired: Discarded, string(pool.Failed): Failed, pool.Repeated: Failed, string(pool.Lost): Lost,
	string(pool.Refused): Refused, string(pool.Hopeless): Refused, string(pool.Busy): Refused, string(pool.Fault): Refused,
}

// recordOf returns the record of a row.
func recordOf(row *pool.Row) (Record, error) {
	var p purchase.Purchase
	if err := json.Unmarshal([]byte(row.JSON), &p); err != nil {
		return Record{ID: row.Order}, err
	}
	r := begunRecord(&p)
	if row.Kind == pool.Opened {
		return r, nil
	}
	r.How, r.Code, r.Ended, r.Polls, r.Callback, r.Price = hows[row.Kind], p.Code, row.At, p.Polls, p.Callback, p.Price
	switch {
	case r.How == "":
		return r, fmt.Errorf("an order cannot end as %q", row.Kind)
	case row.Kind == string(pool.Hopeless) && p.Task != "": // the service had accepted the submit
		r.How = Failed
	case row.Kind == pool.Repeated:
		r.Code = row.Kind
	case r.How == Lost && r.Code == "":
		r.Code = purchase.CodeTimeout
	case r.How == Solved || r.How == Discarded:
		r.Solved = p.Solved
	}
	if !r.Costs() {
		r.Price = 0
	}
	return r, nil
}

// begunRecord returns the record of an order that has not ended.
func begunRecord(p *purchase.Purchase) Record {
	id, _ := pool.Hash(p.ID)
	return Record{
		ID: OrderID(p), Identity: id, Target: p.Target, Owner: p.Owner, Type: p.Identity.Type,
		Sitekey: p.Identity.Site(), Pageurl: p.Identity.Pageurl, Provider: p.Provider, Choice: p.Choice, Task: p.Task,
		Placed: p.Placed, Submitted: p.Submitted,
	}
}
