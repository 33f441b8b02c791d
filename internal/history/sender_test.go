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
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/captcha"
	"poold/internal/history"
	"poold/internal/history/redisstore"
	"poold/internal/pool"
	"poold/internal/redisdb/redistest"
)

// place is a Redis in a bubble, with a stock and a history.
type place struct {
	t     *testing.T
	dial  *redistest.Bubble
	stock *pool.Store
	store *redisstore.Store
	log   bytes.Buffer

	mu    sync.Mutex
	sold  map[string]history.How // what became of each order, by its name
	fault func(batch []history.Record) error
}

// in runs a test in a bubble.
func in(t *testing.T, do func(t *testing.T, p *place)) {
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

// Write is the store's, with the faults of a test.
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

// sender runs one until it is stopped.
func (p *place) sender(from history.Outbox) (s *history.Sender, stop func()) {
	s = history.NewSender(from, p, slog.New(slog.NewTextHandler(&p.log, nil)))
	return s, p.running(s.Run)
}

// running runs a part until it is stopped.
func (p *place) running(run func(context.Context) error) (stop func()) {
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

// order has an order end.
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
		_, err = p.stock.Orders.Mark(p.t.Context(), ref) // and nobody ever hears of it again
	}
	if err != nil {
		p.t.Fatal(err)
	}
	p.sold[ref.String()] = how
	return ref.Identity
}

// counted compares the figures of today with what was sold; nothing is left to be sent.
func (p *place) counted() {
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
		if left, _, err := p.stock.Endings.Kept(p.t.Context(), []captcha.ID{identity(i).ID()}, 100); err != nil || len(left) != 0 {
			p.t.Errorf("left: %v, %v", left, err)
		}
	}
}

// listed is how many records are listed, each with the right end and its code.
func (p *place) listed() (n int) {
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

// What ends at a replica is sent at once. What nobody told of is found: orders that count as lost, and what ended at
// a replica without a sender.
func TestWhatEndsIsSent(t *testing.T) {
	in(t, func(t *testing.T, p *place) {
		s, _ := p.sender(p.stock.Endings)
		other, _ := p.sender(p.open().Endings)
		id := p.order(1, "first", history.Solved)
		s.Ended(id)
		other.Ended(id)
		synctest.Wait()
		p.counted()
		if n := p.listed(); n != 1 {
			t.Errorf("%d records are listed", n)
		}
		for i := range 300 {
			p.order(i%5, fmt.Sprint("o", i), ends[i%4])
		}
		time.Sleep(time.Minute)
		for i := range 5 { // who looks at the stock purges it
			if _, err := p.stock.Tokens.Look(p.t.Context(), identity(i).ID(), 0, 0); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Minute)
		p.counted()
		if n := p.listed(); n != 5*50 { // of each site the newest
			t.Errorf("%d records are listed", n)
		}
	})
}

// More than one batch of an identity is sent at once.
func TestManyEndsOfOneIdentity(t *testing.T) {
	in(t, func(t *testing.T, p *place) {
		s, _ := p.sender(p.stock.Endings)
		for i := range 250 {
			p.order(1, fmt.Sprint("o", i), history.Failed)
		}
		s.Ended(identity(1).ID())
		synctest.Wait()
		p.counted()
		if h := s.Health(); h.Sent != 250 {
			t.Errorf("health %+v", h)
		}
	})
}

// A store that is away holds nothing up, is said to be away once, and gets it all later.
func TestAStoreThatIsAway(t *testing.T) {
	in(t, func(t *testing.T, p *place) {
		s, _ := p.sender(p.stock.Endings)
		var tries atomic.Int64
		p.setFault(func([]history.Record) error {
			tries.Add(1)
			return fmt.Errorf("%w: not now", history.ErrDown)
		})
		for i := range 100 {
			s.Ended(p.order(i%5, fmt.Sprint("o", i), ends[i%3]))
			time.Sleep(6 * time.Second)
		}
		if h := s.Health(); !strings.Contains(h.Down, "not now") || time.Since(h.Since) < 9*time.Minute || h.Sent != 0 {
			t.Errorf("health %+v", h)
		}
		if n := tries.Load(); n < 20 || n > 60 {
			t.Errorf("tried %d times in ten minutes", n)
		}
		p.setFault(nil)
		time.Sleep(time.Minute)
		if h := s.Health(); h.Down != "" || h.Sent != 100 || h.Dropped != 0 {
			t.Errorf("health %+v", h)
		}
		p.counted()
		if n := p.listed(); n != 100 {
			t.Errorf("%d records are listed", n)
		}
		if n := strings.Count(p.log.String(), "\n"); n != 2 {
			t.Errorf("logged:\n%s", p.log.String())
		}
	})
}

// An identity whose ends cannot be read keeps those of no other one from the history, and is told until it can be
// read again.
func TestAnUnreadableKeyHoldsUpNothingElse(t *testing.T) {
	in(t, func(t *testing.T, p *place) {
		raw := redis.NewClient(&redis.Options{Dialer: p.dial.Dial, Protocol: 2})
		defer func() { _ = raw.Close() }()
		broken := p.order(1, "a", history.Solved)
		key := "history:ended:{" + string(broken) + "}"
		if err := raw.Del(t.Context(), key).Err(); err != nil {
			t.Fatal(err)
		}
		delete(p.sold, pool.Ref{Identity: broken, Order: "a"}.String())
		if err := raw.Set(t.Context(), key, "another program's", 0).Err(); err != nil {
			t.Fatal(err)
		}
		s, stop := p.sender(p.stock.Endings)
		for _, i := range []int{0, 2, 3} {
			s.Ended(p.order(i, "b", history.Solved))
		}
		s.Ended(broken)
		time.Sleep(3 * time.Minute) // sweeps find it again and again
		if h := s.Health(); h.Sent != 3 || h.Down != "" || h.Unread != 1 || !strings.Contains(h.Why, "the key "+key+" holds a string") {
			t.Errorf("%+v", h)
		}
		if err := raw.Del(t.Context(), key).Err(); err != nil {
			t.Fatal(err)
		}
		p.order(1, "c", history.Solved) // found by a sweep
		time.Sleep(3 * time.Minute)
		if h := s.Health(); h.Sent != 4 || h.Unread != 0 || h.Why != "" {
			t.Errorf("afterwards %+v", h)
		}
		stop()
		if n := strings.Count(p.log.String(), "cannot be read and are not in the history"); n != 1 {
			t.Errorf("logged %d times:\n%s", n, p.log.String())
		}
		p.counted()
	})
}

// A record that the store refuses for what is in it does not hold up the others.
func TestARecordThatIsRefused(t *testing.T) {
	in(t, func(t *testing.T, p *place) {
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
		p.counted()
		if n := strings.Count(p.log.String(), "refuses a record"); n != 1 {
			t.Errorf("logged:\n%s", p.log.String())
		}
	})
}

// cutOff forgets nothing: its replica dies between the store and the stock.
type cutOff struct{ history.Outbox }

func (cutOff) Forget(context.Context, []pool.EndedOrder) error { return errors.New("killed") }

// What a replica had written when it died, and not forgotten, is written again by another one, and counts once.
func TestAReplicaDiesInBetween(t *testing.T) {
	in(t, func(t *testing.T, p *place) {
		dying, kill := p.sender(cutOff{p.stock.Endings})
		for i := range 40 {
			dying.Ended(p.order(i%5, fmt.Sprint("o", i), ends[i%3]))
			synctest.Wait()
		}
		time.Sleep(time.Second)
		kill()
		_, _ = p.sender(p.open().Endings)
		time.Sleep(2 * time.Minute)
		p.counted()
	})
}
