package history_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
	"poold/internal/history"
	"poold/internal/history/redisstore"
	"poold/internal/pool"
	"poold/internal/redisdb/redistest"
)

// place is a Redis in a bubble with a stock and a history.
type place struct {
	t     *testing.T
	dial  *redistest.Bubble
	stock *pool.Store
	store *redisstore.Store
	log   bytes.Buffer

	mu    sync.Mutex
	sold  map[string]history.How // how each order ended, by its ID
	fault func(batch []history.Record) error
}

func inPlace(t *testing.T, do func(t *testing.T, p *place)) {
	synctest.Test(t, func(t *testing.T) {
		p := &place{t: t, dial: redistest.InBubble(t), sold: map[string]history.How{}}
		p.stock = p.open()
		p.store = redisstore.New(p.stock.DB, redisstore.Options{})
		do(t, p)
	})
}

func (p *place) open() *pool.Store {
	stock, err := pool.Open(pool.Options{
		Addresses: "redis://bubble", Dial: p.dial.Dial, Prefix: "history", Endings: 1000, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = stock.Close() })
	return stock
}

// Write calls the store's Write, unless the function fault returns an error.
func (p *place) Write(ctx context.Context, batch []history.Record) error {
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

func (p *place) setFault(fault func([]history.Record) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = fault
}

func (p *place) sender(from history.Outbox) (s *history.Sender, stop func()) {
	return p.senderTo(from, p)
}

func (p *place) senderTo(from history.Outbox, to history.Writer) (s *history.Sender, stop func()) {
	s = history.NewSender(from, to, slog.New(slog.NewTextHandler(&p.log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	return s, p.runUntilStopped(s.Run)
}

// runUntilStopped calls the given function. The context of the function ends when stop is called or
// when the test ends.
func (p *place) runUntilStopped(run func(context.Context) error) (stop func()) {
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

func identity(i int) captcha.Identity {
	return captcha.Identity{Type: captcha.Turnstile, Sitekey: fmt.Sprint("site ", i), Pageurl: "https://example.com/"}
}

func (p *place) order(i int, name string, how history.How) captcha.ID {
	p.t.Helper()
	id := identity(i)
	facts := pool.Facts{Target: fmt.Sprint("target-", i), Owner: "qa@example.com", Provider: "one", Identity: id}
	ref := pool.Ref{Identity: id.ID(), Order: name}
	got, err := p.stock.Orders.Place(p.t.Context(), pool.Order{Ref: ref, Depth: 1000, TTL: time.Minute, Price: 3, Facts: facts})
	if err != nil || !got.Placed {
		p.t.Fatal(got, err)
	}
	switch asked := (&pool.Asked{Provider: "two", Task: "t" + name, Code: "ERROR_" + name, Submitted: time.Second}); how {
	case history.Solved:
		_, err = p.stock.Orders.Settle(p.t.Context(), pool.Landing{
			Ref: ref, Provider: "two", Task: "t" + name, Value: name, Lifetime: time.Minute, Submitted: time.Second, Polls: 2,
		})
	case history.Failed, history.Refused:
		_, err = p.stock.Orders.Fail(p.t.Context(), pool.Failure{Ref: ref, Bought: how == history.Failed, Asked: asked})
	case history.Lost:
		_, err = p.stock.Orders.MarkSubmitting(p.t.Context(), ref) // from now on the order stays unchanged, and becomes lost
	}
	if err != nil {
		p.t.Fatal(err)
	}
	p.sold[ref.String()] = how
	return ref.Identity
}

// checkFigures compares today's figures with the sold orders, and checks that the outbox is empty.
func (p *place) checkFigures() {
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
	got.ElapsedMS = 0
	if got != want {
		p.t.Errorf("counted %+v, want %+v", got, want)
	}
	for i := range 5 {
		if left, err := p.stock.Endings.Kept(p.t.Context(), []captcha.ID{identity(i).ID()}, 100); err != nil || len(left) != 0 {
			p.t.Errorf("left: %v, %v", left, err)
		}
	}
}

// checkRecords returns the number of records, and checks the end and the code of each record.
func (p *place) checkRecords() (n int) {
	p.t.Helper()
	for id, how := range p.sold {
		r, there, err := p.store.Solve(p.t.Context(), id)
		if err != nil || there && (r.How != how || r.Owner != "qa@example.com" || r.Type != captcha.Turnstile) {
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

// An order that ends at a replica is sent immediately. Sweeps find lost orders and the ended orders
// of replicas without a sender.
func TestEndsAreSent(t *testing.T) {
	inPlace(t, func(t *testing.T, p *place) {
		s, _ := p.sender(p.stock.Endings)
		other, _ := p.sender(p.open().Endings)
		id := p.order(1, "first", history.Solved)
		s.Ended(id)
		other.Ended(id)
		synctest.Wait()
		p.checkFigures()
		if n := p.checkRecords(); n != 1 {
			t.Errorf("%d records are listed", n)
		}
		for i := range 300 {
			p.order(i%5, fmt.Sprint("o", i), ends[i%4])
		}
		time.Sleep(time.Minute)
		for i := range 5 { // a look drops the expired tokens and orders
			if _, err := p.stock.Tokens.Look(p.t.Context(), identity(i).ID(), 0, 0); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Minute)
		p.checkFigures()
		if n := p.checkRecords(); n != 5*50 { // the store keeps the 50 newest records of each site
			t.Errorf("%d records are listed", n)
		}
	})
}

// A record whose contents the store refuses does not block other records.
func TestRefusedRecordDoesNotBlockOthers(t *testing.T) {
	inPlace(t, func(t *testing.T, p *place) {
		s, _ := p.sender(p.stock.Endings)
		p.setFault(func(batch []history.Record) error {
			if slices.ContainsFunc(batch, func(r history.Record) bool { return strings.HasPrefix(r.ID, "bad.") }) {
				return errors.New("not like this")
			}
			return nil
		})
		for i := range 50 {
			p.order(1, fmt.Sprint("o", i), history.Failed)
		}
		id := p.order(1, "bad", history.Solved)
		s.Ended(id)
		synctest.Wait()
		if h := s.Health(); h.Sent != 50 || h.Dropped != 1 || h.Down != "" {
			t.Errorf("health %+v", h)
		}
		delete(p.sold, "bad."+string(id))
		p.checkFigures()
		if n := strings.Count(p.log.String(), "refuses a record"); n != 1 {
			t.Errorf("logged:\n%s", p.log.String())
		}
	})
}

// If the store goes down while a refused batch is split, no record is dropped.
func TestOutageWhileABatchIsSplit(t *testing.T) {
	inPlace(t, func(t *testing.T, p *place) {
		calls := 0
		p.setFault(func(batch []history.Record) error {
			switch calls++; {
			case calls == 2: // the first half
				return fmt.Errorf("%w: not now", history.ErrDown)
			case slices.ContainsFunc(batch, func(r history.Record) bool { return strings.HasPrefix(r.ID, "bad.") }):
				return errors.New("not like this")
			}
			return nil
		})
		for i := range 50 {
			p.order(1, fmt.Sprint("o", i), history.Failed)
		}
		id := p.order(1, "bad", history.Solved)
		s, _ := p.sender(p.stock.Endings)
		s.Ended(id)
		time.Sleep(time.Minute)
		if h := s.Health(); h.Sent != 50 || h.Dropped != 1 || h.Down != "" {
			t.Errorf("health %+v", h)
		}
		delete(p.sold, "bad."+string(id))
		p.checkFigures()
		for _, message := range []string{"history cannot be written", "history is written again", "refuses a record"} {
			if n := strings.Count(p.log.String(), message); n != 1 {
				t.Errorf("%d times %q in the log:\n%s", n, message, p.log.String())
			}
		}
	})
}

// cutOff is the outbox of a replica that dies before it removes anything from the outbox.
type cutOff struct{ history.Outbox }

func (cutOff) Forget(context.Context, []pool.EndedOrder) error { return errors.New("killed") }

// A replica dies between the write and the removal. Another replica writes the same records again,
// and each record counts once.
func TestRecordsOfADeadReplicaCountOnce(t *testing.T) {
	inPlace(t, func(t *testing.T, p *place) {
		dying, kill := p.sender(cutOff{p.stock.Endings})
		for i := range 40 {
			dying.Ended(p.order(i%5, fmt.Sprint("o", i), ends[i%3]))
			synctest.Wait()
		}
		time.Sleep(time.Second)
		kill()
		_, _ = p.sender(p.open().Endings)
		time.Sleep(2 * time.Minute)
		p.checkFigures()
	})
}
