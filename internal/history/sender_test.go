package history_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
	"poold/internal/history"
	"poold/internal/history/historytest"
	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/redisdb"
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

// world is a Redis in a bubble with a pool and a store.
type world struct {
	*historytest.Memory
	t    *testing.T
	dial *redistest.Bubble
	pool *pool.Pool // of the test
	log  bytes.Buffer

	mu     sync.Mutex
	fault  func(batch []history.Row) error
	active []string // rows of orders in flight
	want   history.Figures
}

func inWorld(t *testing.T, do func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{Memory: historytest.NewMemory(time.Hour, time.Hour), t: t, dial: redistest.InBubble(t),
			want: history.Figures{}}
		w.pool = w.replica()
		do(t, w)
	})
}

// replica returns the pool of another replica.
func (w *world) replica() *pool.Pool {
	db, err := redisdb.Open(redisdb.Options{Addresses: "redis://bubble", Dial: w.dial.Dial, Prefix: "history",
		Log: slog.New(slog.DiscardHandler)})
	testkit.NoError(w.t, err)
	w.t.Cleanup(func() { _ = db.Close() })
	return pool.New(pool.Config{Slow: db.Slow, Fast: db.Slow, Prefix: db.Prefix, Replica: fmt.Sprintf("%p", db),
		Log: slog.New(slog.DiscardHandler)})
}

// Append appends, unless the function fault returns an error.
func (w *world) Append(ctx context.Context, batch []history.Row) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fault != nil {
		if err := w.fault(batch); err != nil {
			return err
		}
	}
	for _, r := range batch {
		if r.Kind == history.KindActive {
			w.active = append(w.active, r.ID+" "+r.Task)
		}
	}
	return w.Memory.Append(ctx, batch)
}

func (w *world) setFault(fault func([]history.Row) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = fault
}

func (w *world) sender(from history.Outbox) (s *history.Sender, stop func()) {
	s = history.NewSender(from, w, slog.New(slog.NewTextHandler(&w.log, nil)))
	return s, testkit.Run(w.t, s.Run)
}

// subject returns a purchase of the i-th identity.
func subject(i int, order string) purchase.Purchase {
	types := captcha.Types()
	p := historytest.Filled[purchase.Purchase](i)
	p.Order, p.Target, p.Code, p.Price = order, fmt.Sprint("target-", i%7), "ERROR_"+order, 3
	p.Identity = captcha.Identity{Type: types[i%len(types)], Sitekey: fmt.Sprint("site ", i),
		Pageurl: "https://example.com/"}
	p.ID = p.Identity.ID()
	return p
}

// journal returns the order of a purchase. Each order has another account, so that no account is braked.
func journal(p *purchase.Purchase) *pool.Order {
	return &pool.Order{Name: p.Order, ID: p.ID, Account: p.Order, Key: p.Order, Life: time.Hour, Concurrency: 1,
		Depth: 1 << 20, Price: p.Price}
}

func text(p purchase.Purchase) string {
	row, _ := json.Marshal(p)
	return string(row)
}

// place stores an order, and says that its submit may have left.
func (w *world) place(p *purchase.Purchase) {
	w.t.Helper()
	at, _, err := w.pool.Place(w.t.Context(), journal(p))
	if err == nil {
		p.Placed, p.Submitted = at, at
		_, err = w.pool.Begin(w.t.Context(), p.Order, "nonce")
	}
	testkit.NoError(w.t, err)
}

// end ends an order in Redis.
func (w *world) end(p purchase.Purchase, how pool.Outcome, row string) {
	w.t.Helper()
	p.Task = "t" + p.Order
	end := &pool.End{Outcome: how, Provider: p.Provider, Task: p.Task, Value: p.Order, Lifetime: time.Minute, Row: row}
	_, _, err := w.pool.End(w.t.Context(), journal(&p), end)
	testkit.NoError(w.t, err)
}

// order places and ends an order.
func (w *world) order(i int, name string, how pool.Outcome) {
	w.t.Helper()
	p := subject(i, name)
	w.place(&p)
	w.end(p, how, text(p))
	if name != "bad" {
		w.want[string(how)]++
		w.want.Add(map[bool]history.Figures{true: {"spent": 3}}[how == pool.Solved || how == pool.Lost])
	}
}

// orders places and ends n orders in all ways, with a pause after each.
func (w *world) orders(n int, pause time.Duration) {
	w.t.Helper()
	ends := []pool.Outcome{pool.Solved, pool.Failed, pool.Refused, pool.Lost}
	for i := range n {
		w.order(i, fmt.Sprint("O", i), ends[i%len(ends)])
		time.Sleep(pause)
	}
}

// sent checks how many rows a sender has sent and dropped, and that it knows of no outage.
func (w *world) sent(s *history.Sender, sent, dropped int64) {
	w.t.Helper()
	if h := s.Health(); h.Sent != sent || h.Dropped != dropped || h.Down != "" {
		w.t.Errorf("health %+v, want %d sent and %d dropped", h, sent, dropped)
	}
}

// check compares today's figures with the orders, and checks that the outbox is empty.
func (w *world) check() {
	w.t.Helper()
	got := history.Figures{}
	sums, err := w.Days(w.t.Context(), time.Now())
	for _, s := range sums {
		if s.Scope == history.ScopeTarget {
			got.Add(s.Figures)
		}
	}
	if delete(got, "elapsed_ms"); err != nil || fmt.Sprint(got) != fmt.Sprint(w.want) {
		w.t.Errorf("counted %v, want %v; %v", got, w.want, err)
	}
	if totals, err := w.pool.Totals(w.t.Context()); err != nil || totals.Rows != 0 || totals.DroppedRows != 0 {
		w.t.Errorf("%d rows are left, %d dropped, %v", totals.Rows, totals.DroppedRows, err)
	}
}

// logged checks how often messages are in the log.
func (w *world) logged(messages ...string) {
	w.t.Helper()
	for _, message := range messages {
		if n := strings.Count(w.log.String(), message); n != 1 {
			w.t.Errorf("%d times %q in the log:\n%s", n, message, w.log.String())
		}
	}
}

// An order is a row with what its purchase and its end say.
func TestCompleteRowsOfOrders(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)
	p := subject(1, "ORDER")
	p.Placed, p.Submitted, p.Solved = at.Add(-9*time.Second), at.Add(-8*time.Second), at.Add(-time.Second)
	filled := map[string]bool{}
	defer checkFilled[history.Order](t, filled)
	for _, c := range []struct {
		kind   string
		change func(p *purchase.Purchase)
		want   string // outcome, code, whether it has a time of the solve, price
	}{
		{"solved", func(*purchase.Purchase) {}, "solved solved ERROR_ORDER true 3"},
		{"discarded", func(*purchase.Purchase) {}, "error discarded ERROR_ORDER true 3"},
		{"repeated", func(*purchase.Purchase) {}, "error failed repeated false 3"},
		{"failed", func(*purchase.Purchase) {}, "error failed ERROR_ORDER false 0"},
		{"failed", func(p *purchase.Purchase) { p.Code = purchase.CodeTimeout }, "error failed TIMEOUT false 3"},
		{"bad_parameters", func(*purchase.Purchase) {}, "error failed ERROR_ORDER false 0"},
		{"bad_parameters", func(p *purchase.Purchase) { p.Task = "" }, "error refused ERROR_ORDER false 0"},
		{"busy", func(*purchase.Purchase) {}, "error refused ERROR_ORDER false 0"},
		{"lost", func(p *purchase.Purchase) { p.Code, p.Price = "", -1 }, "error lost TIMEOUT false -1"},
		{"active", func(p *purchase.Purchase) { p.Solved = time.Time{} }, "polling  ERROR_ORDER false 3"},
		{"stopped", func(*purchase.Purchase) {}, "an order cannot end as \"stopped\""},
	} {
		p := p
		c.change(&p)
		row, err := history.RowOf(&pool.Row{Stream: pool.Ends, At: at, Kind: c.kind, Order: p.Order, JSON: text(p)})
		if err != nil {
			testkit.Equal(t, c.kind, err.Error(), c.want)
			continue
		}
		o := decoded[history.Order](t, row)
		got := fmt.Sprintf("%s %s %s %v %d", o.Status, o.Outcome, o.Code, !o.SolvedAt.IsZero(), o.Price)
		p.Code = o.Code // as wanted
		checkCarried(t, filled, p, o)
		if got != c.want || o.ID != "ORDER" || !o.PlacedAt.Equal(p.Placed) {
			t.Errorf("%s: %+v is %s, want %s", c.kind, o, got, c.want)
		}
		if c.kind != pool.Active && (o.ElapsedMS != 8000 || !o.EndedAt.Equal(at) || !row.At.Equal(at) || len(row.Sums) != 3) {
			t.Errorf("%s: %+v, %+v", c.kind, o, row)
		}
	}
}

// decoded returns the columns of a row.
func decoded[R any](t *testing.T, row history.Row) R {
	t.Helper()
	list, err := history.Decode[R](history.Page{Rows: [][]byte{row.Text}})
	testkit.NoError(t, err)
	return list[0]
}

// checkCarried fails for each field of the source whose value differs in the row. It notes the fields of the row that
// have a value.
func checkCarried(t *testing.T, filled map[string]bool, source, row any) {
	t.Helper()
	for field, value := range reflect.ValueOf(row).Fields() {
		filled[field.Name] = filled[field.Name] || !value.IsZero()
		from := reflect.ValueOf(source).FieldByName(field.Name)
		if from.IsValid() && from.Type() == field.Type && !from.Equal(value) {
			t.Errorf("%s is %v, want %v", field.Name, value, from)
		}
	}
}

// checkFilled fails for each column that no row filled: its way from the order to the row may have a gap.
func checkFilled[R history.Order | history.Handout](t *testing.T, filled map[string]bool) {
	for field := range reflect.TypeFor[R]().Fields() {
		if !filled[field.Name] {
			t.Errorf("no row fills %s: carry it from its source to the row", field.Name)
		}
	}
}

// Tokens that keys take, miss, return and report are rows. The pool's tables and httpapi's audit show their origin.
func TestCompleteRowsOfHandouts(t *testing.T) {
	at, filled := time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC), map[string]bool{}
	defer checkFilled[history.Handout](t, filled)
	for _, c := range []struct {
		kind string
		buys bool
		want string // action, source, price
	}{
		{"hits", false, "taken pool 3"}, {"hits", true, "taken pool 3"}, {"waited", false, "taken wait 3"},
		{"waited", true, "bought solve 3"},
		{"shared", true, "taken shared 0"}, {"missed", false, "missed  0"}, {"left", true, "missed  0"},
		{"returned", false, "returned  0"},
		{"accepted", false, "accepted  0"}, {"rejected", false, "rejected  0"},
		{"stopped", false, "a hand-out cannot be \"stopped\""},
	} {
		ask := historytest.Filled[history.Ask](1)
		ask.Buys = c.buys
		row, err := history.RowOf(&pool.Row{Stream: pool.Handouts, ID: "17-1", At: at, Kind: c.kind, Order: "ORDER",
			JSON: ask.Row(), Price: 3})
		if err != nil {
			testkit.Equal(t, c.kind, err.Error(), c.want)
			continue
		}
		h := decoded[history.Handout](t, row)
		checkCarried(t, filled, ask, h)
		if got := fmt.Sprintf("%s %s %d", h.Action, h.Source, h.Price); got != c.want || h.ID != "17-1" || !h.At.Equal(at) ||
			h.Order != "ORDER" {
			t.Errorf("%s: %+v, want %s", c.kind, h, c.want)
		}
	}
}

// An unreadable row and a row that the store refuses do not block others, even if the store goes down while a refused
// batch is split.
func TestRefusedRowBlocksNoOthers(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		calls := 0
		w.setFault(func(batch []history.Row) error {
			switch calls++; {
			case calls == 2: // the first half
				return fmt.Errorf("%w: not now", history.ErrDown)
			case slices.ContainsFunc(batch, func(r history.Row) bool { return r.ID == "bad" }):
				return errors.New("not like this")
			}
			return nil
		})
		w.orders(50, 0)
		w.order(1, "bad", pool.Solved)
		unread := subject(1, "unread")
		w.place(&unread)
		w.end(unread, pool.Lost, "{")
		s, _ := w.sender(w.pool)
		time.Sleep(time.Minute)
		w.sent(s, 50, 2)
		w.check()
		w.logged("history cannot be written", "history is written again", "refuses a row")
	})
}

// While the store is down, orders still end, and the log gets one line about the outage. All rows arrive after it.
func TestSenderOutlivesAnOutage(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		s, _ := w.sender(w.pool)
		var tries atomic.Int64
		w.setFault(func([]history.Row) error {
			if tries.Add(1) == 3 {
				panic("a fault of the store's client")
			}
			return fmt.Errorf("%w: not now", history.ErrDown)
		})
		w.orders(100, 6*time.Second)
		if h := s.Health(); !strings.Contains(h.Down, "not now") || time.Since(h.Since) < 9*time.Minute || h.Sent != 0 {
			t.Errorf("health %+v", h)
		}
		if n := tries.Load(); n < 300 || n > 600 {
			t.Errorf("tried %d times in ten minutes", n)
		}
		w.setFault(nil)
		time.Sleep(time.Minute)
		w.sent(s, 100, 0)
		w.check()
		w.logged("history cannot be written", "history is written again", "panic while sending")
	})
}

// A store that is away from the start is known to be away before the first row. A stop sends the rows of orders that
// have just ended.
func TestHealthBeforeTheFirstRow(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Fail(history.ErrDown)
		s, stop := w.sender(w.pool)
		synctest.Wait()
		if h := s.Health(); h.Down == "" || h.Since.IsZero() {
			t.Errorf("health %+v", h)
		}
		w.Fail(nil)
		time.Sleep(5 * time.Second)
		testkit.Equal(t, "down", s.Health().Down, "")
		w.orders(150, 0)
		stop()
		w.check()
	})
}

// A store that fails because of a stop refuses no row.
func TestAStopRefusesNoRow(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		s, stop := w.sender(w.pool)
		w.setFault(func([]history.Row) error {
			time.Sleep(5 * time.Second)
			return context.Canceled
		})
		w.order(1, "O", pool.Solved)
		time.Sleep(2 * time.Second)
		stop()
		w.sent(s, 0, 0)
	})
}

// cutOff is the outbox of a replica that dies before it removes anything.
type cutOff struct{ *pool.Pool }

func (cutOff) Done(context.Context, []pool.Row) error { return errors.New("killed") }

// A replica dies between the write and the removal. Another one writes the same rows again once the turn of
// the dead one is over, and each counts once.
func TestRowsOfADeadReplicaCountOnce(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		_, kill := w.sender(cutOff{w.replica()})
		w.orders(60, 100*time.Millisecond)
		kill()
		living, _ := w.sender(w.replica())
		time.Sleep(10 * time.Second)
		w.sent(living, 0, 0) // before its turn
		time.Sleep(15 * time.Second)
		w.check()
	})
}

// For stores that other programs read, a purchase appends a row of an order in flight.
func TestOrdersInFlightAreSent(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.sender(w.pool)
		p := subject(1, "ORDER")
		w.place(&p)
		for _, task := range []string{"", "t1"} { // at first the outcome of the submit is unknown
			p.Task = task
			_, err := w.pool.Bought(t.Context(), journal(&p), task, text(p))
			testkit.NoError(t, err)
			time.Sleep(3 * time.Second)
		}
		synctest.Wait()
		testkit.DeepEqual(t, "rows in flight", w.active, []string{"ORDER ", "ORDER t1"})
		w.check()
	})
}
