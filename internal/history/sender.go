package history

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"poold/internal/backoff"
	"poold/internal/panics"
	"poold/internal/pool"
	"poold/internal/purchase"
)

const (
	// sendEvery is how long a Sender lets rows collect before it sends them, because a batch costs a store little more
	// than a single row. It is also the pause after a failure, and while another replica sends.
	sendEvery = time.Second
	// doneTime limits the time for removing sent rows from the outbox. lastTime limits the time in which Run sends the
	// remaining rows when it ends.
	doneTime, lastTime = 2 * time.Second, 3 * time.Second
)

// Outbox keeps rows until a Sender has sent them; *pool.Pool implements it.
type Outbox interface {
	Rows(ctx context.Context, most int) (list []pool.Row, mine bool, err error)
	Done(ctx context.Context, rows []pool.Row) error
}

// Health is the state of a Sender.
type Health struct {
	Down    string    // why the store does not respond; "" = the last attempt succeeded
	Since   time.Time // of the first failure after the last success, if Down is not ""
	Sent    int64     // rows that this process has sent
	Dropped int64     // rows whose content the store refused
}

// Sender copies rows from the outbox to a store. The Senders of all replicas take turns.
type Sender struct {
	from Outbox
	to   Sink
	log  *slog.Logger

	mu     sync.Mutex
	health Health
}

// NewSender returns a Sender. It sends nothing before Run is called.
func NewSender(from Outbox, to Sink, log *slog.Logger) *Sender {
	return &Sender{from: from, to: to, log: log}
}

// Health returns the state of the Sender. It does not block.
func (s *Sender) Health() Health {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.health
}

// Run sends rows until ctx ends, and then sends the remaining rows. Rows that it cannot send stay in Redis, and any
// replica can send them.
func (s *Sender) Run(ctx context.Context) error {
	s.probe(ctx)
	for backoff.Sleep(ctx, sendEvery) == nil {
		s.sendAll(ctx)
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTime)
	defer cancel()
	s.sendAll(limited)
	return nil
}

// probe makes a call to the store, so that its health is known before there is a row to send.
func (s *Sender) probe(ctx context.Context) {
	_, err := s.to.Days(ctx, time.Now())
	if ctx.Err() == nil {
		s.note(err)
	}
}

// sendAll sends rows until no row waits, or until the store fails.
func (s *Sender) sendAll(ctx context.Context) {
	for more := true; more; {
		more = false
		_ = panics.Contain(s.log, "panic while sending the history", func() { more = s.send(ctx) })
	}
}

// send sends the oldest rows. It returns true if this succeeded and more rows may wait.
func (s *Sender) send(ctx context.Context) (more bool) {
	rows, mine, err := s.from.Rows(ctx, MostBatch)
	switch {
	case err != nil: // package redisdb logs outages of Redis
		return false
	case len(rows) == 0 && s.Health().Down != "":
		s.probe(ctx)
		fallthrough
	case !mine, len(rows) == 0:
		return false
	}
	err = s.write(ctx, rows)
	if ctx.Err() == nil { // the end of ctx is not a fault of the store
		s.note(err)
	}
	sent := rows
	if err != nil {
		sent = nil
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), doneTime)
	defer cancel()
	failed := s.from.Done(limited, sent) // after a failure the rows are sent again
	return err == nil && failed == nil && len(rows) == MostBatch
}

// note records the result of an attempt, and logs when an outage begins or ends.
func (s *Sender) note(err error) {
	s.mu.Lock()
	was, since := s.health.Down, s.health.Since
	if s.health.Down = ""; err != nil {
		s.health.Down = err.Error()
	}
	if was == "" {
		s.health.Since = time.Now()
	}
	s.mu.Unlock() // a slow log does not block Health
	switch {
	case err != nil && was == "":
		s.log.Warn("the history cannot be written; Redis keeps its rows meanwhile", "err", err)
	case err == nil && was != "":
		s.log.Info("the history is written again", "took", time.Since(since).Round(time.Second))
	}
}

// write writes rows to the store.
func (s *Sender) write(ctx context.Context, rows []pool.Row) error {
	var batch []Row
	dropped := 0
	for i := range rows {
		row, err := RowOf(&rows[i])
		if err != nil {
			dropped++
			s.log.Error("the history cannot read a row, which is dropped", "row", rows[i].ID, "err", err)
			continue
		}
		batch = append(batch, row)
	}
	isDown := func(err error) bool {
		return errors.Is(err, ErrDown) || err != nil && ctx.Err() != nil
	}
	err := s.to.Append(ctx, batch)
	if err != nil && !isDown(err) { // the refused rows must not hold up the others
		for _, row := range batch {
			if err = s.to.Append(ctx, []Row{row}); isDown(err) {
				return err
			} else if err != nil {
				dropped++
				s.log.Error("the history refuses a row, which is dropped", "row", row.ID, "err", err)
			}
		}
		err = nil
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.health.Sent += int64(len(rows) - dropped)
	s.health.Dropped += int64(dropped)
	return nil
}

// outcomes maps the ends of orders in package pool to those of the history and the metrics.
var outcomes = map[pool.Outcome]Outcome{
	pool.Solved: Solved, pool.Discarded: Discarded, pool.Failed: Failed, pool.Repeated: Failed, pool.Lost: Lost,
	pool.Refused: Refused, pool.BadParameters: Refused, pool.Busy: Refused, pool.Fault: Refused,
}

// OutcomeOf converts the end of an order that has this task; "" = it was not submitted.
func OutcomeOf(end pool.Outcome, task string) Outcome {
	if end == pool.BadParameters && task != "" { // the service had accepted the submit
		return Failed
	}
	return outcomes[end]
}

// RowOf converts a row of the outbox to a row of the history.
func RowOf(r *pool.Row) (Row, error) {
	if r.Stream == pool.Handouts {
		return handoutOf(r)
	}
	var p purchase.Purchase
	if err := json.Unmarshal([]byte(r.JSON), &p); err != nil {
		return Row{}, err
	}
	o := OrderOf(&p)
	if r.Kind == pool.Active {
		return o.Row(), nil
	}
	o.Outcome = OutcomeOf(pool.Outcome(r.Kind), p.Task)
	o.Status, o.EndedAt, o.Price = StatusError, Time{r.At}, Money(p.Price)
	switch {
	case o.Outcome == "":
		return Row{}, fmt.Errorf("an order cannot end as %q", r.Kind)
	case r.Kind == string(pool.Repeated):
		o.Code = r.Kind
	case o.Outcome == Lost && o.Code == "":
		o.Code = purchase.CodeTimeout
	case o.Outcome == Solved:
		o.Status = StatusSolved
	}
	if o.Outcome != Solved && o.Outcome != Discarded {
		o.SolvedAt = Time{}
	}
	if !p.Submitted.IsZero() {
		o.ElapsedMS = r.At.Sub(p.Submitted).Milliseconds()
	}
	return o.Row(), nil
}

// handoutOf converts a row of the outbox about a hand-out or a report.
func handoutOf(r *pool.Row) (Row, error) {
	var asked struct { // the fields of Ask
		Handout
		Buys bool `json:"buys"`
	}
	if err := json.Unmarshal([]byte(r.JSON), &asked); err != nil {
		return Row{}, err
	}
	h := asked.Handout
	h.ID, h.At, h.Order = r.ID, Time{r.At}, r.Order
	switch r.Kind {
	case "hits":
		h.Action, h.Source, h.Price = Taken, string(pool.FromPool), Money(r.Price)
	case "waited":
		h.Action, h.Source, h.Price = Taken, string(pool.FromWait), Money(r.Price)
		if asked.Buys {
			h.Action, h.Source = Bought, "solve"
		}
	case "shared":
		h.Action, h.Source = Taken, r.Kind
	case "missed", "left":
		h.Action = Missed
	case string(Returned), string(Accepted), string(Rejected):
		h.Action = Action(r.Kind)
	default:
		return Row{}, fmt.Errorf("a hand-out cannot be %q", r.Kind)
	}
	return h.Row(), nil
}
