package history_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/history"
	"poold/internal/history/redisstore"
	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/redisdb"
	"poold/internal/redisdb/redistest"
)

// world is a Redis in a bubble with a pool and a history.
type world struct {
	t     *testing.T
	dial  *redistest.Bubble
	pool  *pool.Pool // of the test
	store *redisstore.Store
	log   bytes.Buffer

	mu    sync.Mutex
	sold  map[string]history.How // how each order ended, by its ID
	fault func(batch []history.Record) error
}

func inWorld(t *testing.T, do func(t *testing.T, p *world)) {
	synctest.Test(t, func(t *testing.T) {
		p := &world{t: t, dial: redistest.InBubble(t), sold: map[string]history.How{}}
		db := p.open()
		p.pool, p.store = poolOf(db), redisstore.New(db, redisstore.Options{})
		do(t, p)
	})
}

func (p *world) open() *redisdb.DB {
	db, err := redisdb.Open(redisdb.Options{
		Addresses: "redis://bubble", Dial: p.dial.Dial, Prefix: "history", Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = db.Close() })
	return db
}

// replica returns the pool of another replica.
func (p *world) replica() *pool.Pool { return poolOf(p.open()) }

// Write calls the store's Write, unless the function fault returns an error.
func (p *world) Write(ctx context.Context, batch []history.Record) error {
	p.mu.Lock()
	fault := p.fault
	p.mu.Unlock()
	if fault != nil {
		if err := fault(batch); err != nil {
			return err
		}
	}
	return p.store.Write(ctx, batch)
}

func (p *world) setFault(fault func([]history.Record) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = fault
}

func (p *world) sender(from history.Outbox) (s *history.Sender, stop func()) {
	return p.senderTo(from, p)
}

func (p *world) senderTo(from history.Outbox, to history.Writer) (s *history.Sender, stop func()) {
	log := slog.NewTextHandler(&p.log, &slog.HandlerOptions{Level: slog.LevelDebug})
	s = history.NewSender(from, to, nil, slog.New(log))
	return s, p.runUntilStopped(s.Run)
}

// runUntilStopped calls the given function. The context of the function ends when stop is called or
// when the test ends.
func (p *world) runUntilStopped(run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(p.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := run(ctx); err != nil {
			p.t.Error(err)
		}
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		<-done
	})
	p.t.Cleanup(stop)
	return stop
}

// order places and ends an order.
func (p *world) order(i int, name string, how history.How) {
	p.t.Helper()
	about := subject(i)
	about.Order, about.Owner, about.Code, about.Price = name, "qa@example.com", "ERROR_"+name, 3
	if how == history.Lost {
		about.Code = ""
	}
	err := place(p.t.Context(), p.pool, &about)
	if err == nil {
		err = end(p.t.Context(), p.pool, about, how)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	p.sold[history.OrderID(&about)] = how
}

// checkFigures compares today's figures with the sold orders, and checks that the outbox is empty.
func (p *world) checkFigures() {
	p.t.Helper()
	var want, got history.Figures
	for _, how := range p.sold {
		want = want.Plus(history.Record{How: how, Price: 3}.Figures())
	}
	day, err := p.store.Day(p.t.Context(), time.Now())
	if err != nil {
		p.t.Fatal(err)
	}
	for _, f := range day.Targets {
		got = got.Plus(f)
	}
	want.ElapsedMS, got.ElapsedMS = 0, 0
	if got != want {
		p.t.Errorf("counted %+v, want %+v", got, want)
	}
	if left, dropped, err := p.pool.Outbox(p.t.Context(), pool.Ends); err != nil || left != 0 || dropped != 0 {
		p.t.Errorf("%d rows are left, %d dropped, %v", left, dropped, err)
	}
}

// checkRecords returns the number of records, and checks the end and the code of each record.
func (p *world) checkRecords() (n int) {
	p.t.Helper()
	for id, how := range p.sold {
		r, there, err := p.store.Solve(p.t.Context(), id)
		if err != nil || there && (r.How != how || r.Owner != "qa@example.com") {
			p.t.Errorf("%s: %+v, %v; want %s", id, r, err, how)
		}
		if there && how == history.Lost && r.Code != "TIMEOUT" {
			p.t.Errorf("%s is lost with the code %q, want TIMEOUT", id, r.Code)
		}
		if there {
			n++
		}
	}
	return n
}

var ends = []history.How{history.Solved, history.Failed, history.Refused, history.Lost}

// An order that ends at a replica is sent immediately. Those that dead replicas left are sent soon.
func TestEndsAreSent(t *testing.T) {
	inWorld(t, func(t *testing.T, p *world) {
		s, _ := p.sender(p.pool)
		other, _ := p.sender(p.replica())
		p.order(1, "first", history.Solved)
		s.Ended()
		other.Ended()
		synctest.Wait()
		p.checkFigures()
		if n := p.checkRecords(); n != 1 {
			t.Errorf("%d records are listed", n)
		}
		for i := range 300 {
			p.order(i%5, fmt.Sprint("o", i), ends[i%4])
		}
		time.Sleep(10 * time.Second)
		p.checkFigures()
		if n := p.checkRecords(); n != 5*50 { // the store keeps the 50 newest records of each site
			t.Errorf("%d records are listed", n)
		}
		if one, two := s.Health(), other.Health(); one.Sent+two.Sent != 301 {
			t.Errorf("sent %+v and %+v", one, two)
		}
	})
}

// A row that cannot be read, and a record that the store refuses, do not block other records.
func TestRefusedRecordDoesNotBlockOthers(t *testing.T) {
	inWorld(t, func(t *testing.T, p *world) {
		p.setFault(refuseBad)
		s, _ := p.sender(p.pool)
		p.sellBad()
		unread := subject(1)
		unread.Order = "unread"
		if err := place(t.Context(), p.pool, &unread); err != nil {
			t.Fatal(err)
		}
		if _, _, err := p.pool.End(t.Context(), journal(&unread), &pool.End{How: pool.Lost, Row: "{"}); err != nil {
			t.Fatal(err)
		}
		s.Ended()
		synctest.Wait()
		if h := s.Health(); h.Sent != 50 || h.Dropped != 2 || h.Down != "" {
			t.Errorf("health %+v", h)
		}
		p.checkFigures()
		for _, message := range []string{"refuses a record", "cannot read an order"} {
			if n := strings.Count(p.log.String(), message); n != 1 {
				t.Errorf("%d times %q in the log:\n%s", n, message, p.log.String())
			}
		}
	})
}

func isBad(r history.Record) bool { return strings.HasPrefix(r.ID, "bad.") }

func refuseBad(batch []history.Record) error {
	if slices.ContainsFunc(batch, isBad) {
		return errors.New("not like this")
	}
	return nil
}

// sellBad sells 50 orders, and one that refuseBad refuses.
func (p *world) sellBad() {
	for i := range 50 {
		p.order(i, fmt.Sprint("o", i), history.Failed)
	}
	p.order(1, "bad", history.Solved)
	maps.DeleteFunc(p.sold, func(id string, _ history.How) bool { return strings.HasPrefix(id, "bad.") })
}

// If the store goes down while a refused batch is split, no record is dropped.
func TestOutageWhileABatchIsSplit(t *testing.T) {
	inWorld(t, func(t *testing.T, p *world) {
		calls := 0
		p.setFault(func(batch []history.Record) error {
			if calls++; calls == 2 { // the first half
				return fmt.Errorf("%w: not now", history.ErrDown)
			}
			return refuseBad(batch)
		})
		p.sellBad()
		s, _ := p.sender(p.pool)
		time.Sleep(time.Minute)
		if h := s.Health(); h.Sent != 50 || h.Dropped != 1 || h.Down != "" {
			t.Errorf("health %+v", h)
		}
		p.checkFigures()
		for _, message := range []string{"history cannot be written", "history is written again", "refuses a record"} {
			if n := strings.Count(p.log.String(), message); n != 1 {
				t.Errorf("%d times %q in the log:\n%s", n, message, p.log.String())
			}
		}
	})
}

// cutOff is the outbox of a replica that dies before it removes anything from the outbox.
type cutOff struct{ *pool.Pool }

func (cutOff) Done(context.Context, string, []string) error { return errors.New("killed") }

// A replica dies between the write and the removal. Another replica writes the same records again once the turn of
// the dead one is over, and each record counts once.
func TestRecordsOfADeadReplicaCountOnce(t *testing.T) {
	inWorld(t, func(t *testing.T, p *world) {
		_, kill := p.sender(cutOff{p.replica()})
		for i := range 60 { // longer than the pause between two looks
			p.order(i%5, fmt.Sprint("o", i), ends[i%3])
			time.Sleep(100 * time.Millisecond)
		}
		kill()
		living, _ := p.sender(p.replica())
		time.Sleep(10 * time.Second)
		if h := living.Health(); h.Sent != 0 {
			t.Errorf("it did not wait for its turn: %+v", h)
		}
		time.Sleep(15 * time.Second)
		p.checkFigures()
	})
}

// The store that other programs read has the orders in flight, until they end. What begins and ends between two
// looks, it never has.
func TestOrdersInFlightArePublished(t *testing.T) {
	inWorld(t, func(t *testing.T, p *world) {
		shown := &board{shows: map[string]string{}}
		s := history.NewSender(p.pool, p, shown, slog.New(slog.DiscardHandler))
		p.runUntilStopped(s.Run)
		orders := []purchase.Purchase{subject(1), subject(2), subject(3)}
		bought := func(about *purchase.Purchase) {
			if _, err := p.pool.Bought(t.Context(), journal(about), about.Task, text(*about)); err != nil {
				t.Fatal(err)
			}
		}
		for i := range orders {
			orders[i].Order = fmt.Sprint("order", i)
			if err := place(t.Context(), p.pool, &orders[i]); err != nil {
				t.Fatal(err)
			}
			if i < 2 {
				bought(&orders[i]) // the outcome of the submit is unknown
			}
		}
		for _, step := range []struct {
			do            func()
			fails         bool
			shows         string
			puts, removes int
		}{
			{func() {}, false, "order0: order1:", 2, 0},
			{func() { orders[0].Task = "t1"; bought(&orders[0]) }, false, "order0:t1 order1:", 3, 0},
			{func() { p.end(orders[0]); bought(&orders[2]); p.end(orders[2]) }, true, "order0:t1 order1:", 3, 0},
			{func() {}, false, "order1:", 3, 2},
		} {
			step.do()
			shown.set(step.fails)
			time.Sleep(time.Minute) // the longest pause is 45 s
			synctest.Wait()
			got := shown.state()
			if want := fmt.Sprintf("%s (%d put, %d removed)", step.shows, step.puts, step.removes); got != want {
				t.Errorf("it shows %s, want %s", got, want)
			}
			if down := s.Health().Down != ""; down != step.fails {
				t.Errorf("down: %v, want %v", down, step.fails)
			}
		}
	})
}

func (p *world) end(about purchase.Purchase) {
	if err := end(p.t.Context(), p.pool, about, history.Failed); err != nil {
		p.t.Fatal(err)
	}
}

// board is an ActiveStore that counts writes.
type board struct {
	mu            sync.Mutex
	shows         map[string]string // the task of each order
	puts, removes int
	fails         bool
}

func (b *board) set(fails bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fails = fails
}

func (b *board) state() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []string
	for id, task := range b.shows {
		order, _, _ := strings.Cut(id, ".")
		list = append(list, order+":"+task)
	}
	slices.Sort(list)
	return fmt.Sprintf("%s (%d put, %d removed)", strings.Join(list, " "), b.puts, b.removes)
}

func (b *board) PutActive(_ context.Context, orders []history.Record) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fails {
		return history.ErrDown
	}
	for _, o := range orders {
		b.shows[o.ID] = o.Task
		b.puts++
	}
	return nil
}

func (b *board) RemoveActive(_ context.Context, ids []string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range ids {
		delete(b.shows, id)
		b.removes++
	}
	return nil
}
