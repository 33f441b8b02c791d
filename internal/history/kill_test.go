package history_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/history"
	"poold/internal/history/dynamostore"
	"poold/internal/history/dynamotest"
	"poold/internal/pool"
	"poold/internal/postgres/postgrestest"
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

// books are what was sold: how each order ended, and for what.
type books struct {
	stock      *pool.Store
	identities int
	sold       []sale
}

// sale is one order.
type sale struct {
	pool.Ref
	about pool.Facts
	how   history.How
	price int64
	value string // of its token
}

// subject is whom the orders of the i-th identity are for.
func subject(i int) pool.Facts {
	types := captcha.Types()
	return pool.Facts{
		Target: fmt.Sprint("target-", i%7), Owner: fmt.Sprint("owner-", i%3), Provider: "one",
		Identity: captcha.Identity{Type: types[i%len(types)], Sitekey: fmt.Sprint("site ", i), Pageurl: "https://example.com/"},
	}
}

// sell has so many orders end by the scripts that end orders.
func sell(t *testing.T, address string, orders, identities int) *books {
	t.Helper()
	hows := []history.How{history.Solved, history.Failed, history.Refused, history.Lost, history.Discarded}
	b := &books{stock: stockAt(t, address), identities: identities}
	for i := range orders {
		about := subject(i % identities)
		b.sold = append(b.sold, sale{
			Ref:   pool.Ref{Identity: about.Identity.ID(), Order: fmt.Sprint("o", i)},
			about: about, how: hows[(i+i/identities)%len(hows)], price: int64(1000 + i), value: fmt.Sprint("token ", i),
		})
	}
	b.each(t, b.place)
	time.Sleep(5 * time.Millisecond) // the tokens to be discarded die
	b.each(t, b.end)
	time.Sleep(5 * time.Millisecond)                    // the time of those to be lost is over
	b.each(t, func(ctx context.Context, s sale) error { // who looks at the stock purges it
		_, err := b.stock.Tokens.Look(ctx, s.Identity, 0, 0)
		return err
	})
	return b
}

// each does something with all orders, some at once.
func (b *books) each(t *testing.T, do func(ctx context.Context, s sale) error) {
	t.Helper()
	var group sync.WaitGroup
	for part := range slices.Chunk(b.sold, (len(b.sold)+7)/8) {
		group.Go(func() {
			for _, s := range part {
				if err := do(t.Context(), s); err != nil {
					t.Errorf("%s: %v", s.how, err)
				}
			}
		})
	}
	group.Wait()
}

func (b *books) place(ctx context.Context, s sale) error {
	placed, err := b.stock.Orders.Place(ctx, pool.Order{
		Ref: s.Ref, Depth: 1 << 20, TTL: time.Hour, Price: s.price, Facts: s.about,
	})
	if err != nil || !placed.Placed {
		return fmt.Errorf("placed %+v, %w", placed, err)
	}
	_, err = b.stock.Orders.Mark(ctx, s.Ref)
	return err
}

func (b *books) end(ctx context.Context, s sale) error {
	landing := pool.Landing{Ref: s.Ref, Provider: "two", Task: "t" + s.Order, Value: s.value, Lifetime: time.Hour, Submitted: time.Millisecond}
	var err error
	switch s.how {
	case history.Discarded:
		landing.Lifetime = time.Millisecond
		fallthrough
	case history.Solved:
		_, err = b.stock.Orders.Settle(ctx, landing)
	case history.Failed, history.Refused:
		_, err = b.stock.Orders.Fail(ctx, pool.Failure{Ref: s.Ref, Bought: s.how == history.Failed, Asked: &pool.Asked{Provider: "two"}})
	default:
		_, err = b.stock.Orders.Unknown(ctx, s.Ref, time.Millisecond)
	}
	return err
}

// lines are those of all identities that Redis has.
func (b *books) lines(t *testing.T) (all []pool.EndedOrder) {
	t.Helper()
	ids := make([]captcha.ID, b.identities)
	for i := range ids {
		ids[i] = subject(i).Identity.ID()
	}
	for some := range slices.Chunk(ids, 100) {
		kept, _, err := b.stock.Endings.Kept(t.Context(), some, len(b.sold))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, kept...)
	}
	return all
}

// days are the figures that a store must have, by the date. How long it took is known from the lines.
func (b *books) days(t *testing.T, lines []pool.EndedOrder) map[string]history.Day {
	t.Helper()
	line := map[string]pool.EndedOrder{}
	for _, l := range lines {
		line[l.String()] = l
	}
	if len(lines) != len(b.sold) || len(line) != len(b.sold) {
		t.Fatalf("%d lines of %d orders, for %d sold", len(lines), len(line), len(b.sold))
	}
	days := map[string]history.Day{}
	for _, s := range b.sold {
		l := line[s.String()]
		date := l.Ended.Format(time.DateOnly)
		if days[date].Types == nil {
			days[date] = history.Day{Types: map[captcha.Type]history.Figures{}, Targets: map[history.Owned]history.Figures{}}
		}
		f := history.Record{How: s.how, Price: s.price, Submitted: l.Submitted, Ended: l.Ended}.Figures()
		owned := history.Owned{Target: s.about.Target, Owner: s.about.Owner}
		days[date].Types[s.about.Identity.Type] = days[date].Types[s.about.Identity.Type].Plus(f)
		days[date].Targets[owned] = days[date].Targets[owned].Plus(f)
	}
	return days
}

// equal compares a store with the books: the figures of each day, and one record of each order.
func (b *books) equal(t *testing.T, store history.Store, days map[string]history.Day) {
	t.Helper()
	for date, want := range days {
		at, err := time.Parse(time.DateOnly, date)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := store.Day(t.Context(), at); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v\n%+v, want\n%+v", date, err, got, want)
		}
	}
	want := map[string]history.How{}
	for _, s := range b.sold {
		want[s.String()] = s.how
	}
	for i := range b.identities {
		page, err := store.Site(t.Context(), subject(i).Identity.Sitekey, history.Query{Limit: history.MostLimit})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page.Records {
			if how, once := want[r.ID]; !once || r.How != how {
				t.Errorf("%s is recorded as %s, want %q, once", r.ID, r.How, how)
			}
			delete(want, r.ID)
		}
	}
	if len(want) > 0 {
		t.Errorf("%d orders have no record", len(want))
	}
}

// late is a replica that had read all lines before it hung, and goes on at the end. It is its own outbox.
type late struct {
	mu    sync.Mutex
	lines []pool.EndedOrder
}

// Kept is an Outbox's.
func (l *late) Kept(_ context.Context, ids []captcha.ID, _ int) (kept []pool.EndedOrder, _ map[captcha.ID]error, _ error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range l.lines {
		if slices.Contains(ids, o.Identity) {
			kept = append(kept, o)
		}
	}
	return kept, nil, nil
}

// Forget is an Outbox's.
func (l *late) Forget(_ context.Context, orders []pool.EndedOrder) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = slices.DeleteFunc(l.lines, func(o pool.EndedOrder) bool {
		return slices.ContainsFunc(orders, func(gone pool.EndedOrder) bool { return gone.Ref == o.Ref })
	})
	return nil
}

// Sweep is an Outbox's.
func (*late) Sweep(context.Context) ([]captcha.ID, error) { return nil, nil }

// sent tells whether all of it was.
func (l *late) sent() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.lines) == 0
}

// send sends all of it.
func (l *late) send(t *testing.T, to history.Store) {
	t.Helper()
	s := history.NewSender(l, to, slog.New(slog.DiscardHandler))
	for _, o := range l.lines {
		s.Ended(o.Identity)
	}
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() { _ = s.Run(ctx) })
	testkit.Within(t, patience, "all to be sent a second time", l.sent)
	stop()
	group.Wait()
}

// child is a process that sends.
type child struct {
	sending
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Scanner
}

// spawn starts a process.
func spawn(ctx context.Context, t *testing.T, told sending) *child {
	t.Helper()
	text, err := json.Marshal(told)
	if err != nil {
		t.Fatal(err)
	}
	c := &child{sending: told, command: exec.CommandContext(ctx, os.Args[0], "-test.run=^TestSendersAreKilled$")}
	c.command.Env = append(os.Environ(), sendingEnv+"="+string(text))
	c.command.Stderr = os.Stderr
	out, err := c.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewScanner(out)
	if c.in, err = c.command.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := c.command.Start(); err != nil {
		t.Fatal(err)
	}
	return c
}

// says waits until the process says a word, and returns the number behind it.
func (c *child) says(t *testing.T, word string) (n int) {
	t.Helper()
	for c.out.Scan() {
		if said, is := strings.CutPrefix(c.out.Text(), word); is {
			_, _ = fmt.Sscan(said, &n)
			return n
		}
		t.Log(c.Dies, c.Pass, c.out.Text())
	}
	t.Fatalf("a process that dies at %q, pass %d, never said %q", c.Dies, c.Pass, word)
	return 0
}

// died waits until the process has killed itself.
func (c *child) died(t *testing.T) {
	t.Helper()
	c.says(t, "dies")
	var killed *exec.ExitError
	if err := c.command.Wait(); !errors.As(err, &killed) || killed.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("a process that kills itself: %v", err)
	}
}

// end ends a process and returns how many records it sent.
func (c *child) end(t *testing.T) (sent int) {
	t.Helper()
	_ = c.in.Close()
	sent = c.says(t, "sent")
	if err := c.command.Wait(); err != nil {
		t.Error(err)
	}
	return sent
}

// size is how much is sent, and by how many.
type size struct{ orders, identities, living, dying int }

// deaths are the first passes at which processes die; the next ones do two passes later.
var deaths = []struct {
	at   string
	pass int
}{{halfWritten, 1}, {whileSending, 2}, {notForgotten, 1}, {halfWritten, 2}}

// spawn starts the processes that live and those that die. Each holds the first lines that it has read.
func (n size) spawn(ctx context.Context, t *testing.T, redis, store string) (living, dying []*child) {
	t.Helper()
	told := sending{Redis: redis, Store: store, Identities: n.identities}
	for range n.living {
		living = append(living, spawn(ctx, t, told))
	}
	for i := range n.dying {
		told.Dies, told.Pass = deaths[i%len(deaths)].at, deaths[i%len(deaths)].pass+2*(i/len(deaths))
		dying = append(dying, spawn(ctx, t, told))
	}
	for _, c := range slices.Concat(living, dying) {
		if held := c.says(t, "holds"); held < history.MostBatch {
			t.Fatalf("a process begins with %d lines", held)
		}
	}
	return living, dying
}

// Processes send the ends of orders at the same time, and some are killed: while they send, in the middle of a batch,
// and between the store and the removal. All is sent a second time, late. The figures of the day are those of the
// books, each order has one record, and nothing is left in Redis.
//
// Without -short it is 10,000 orders and 20 processes:
//
//	go test ./internal/history -run SendersAreKilled -v
func TestSendersAreKilled(t *testing.T) {
	testkit.WithoutRace(t)
	if told := os.Getenv(sendingEnv); told != "" {
		send(t, told)
		return
	}
	n := size{orders: 10_000, identities: 2000, living: 12, dying: 8}
	if testing.Short() {
		n = size{orders: 600, identities: 300, living: 2, dying: 4}
	}
	dynamotest.Credentials(t)
	for name, start := range map[string]func(t testing.TB) string{
		"redis":    func(t testing.TB) string { return "redis://" + redistest.Server(t) },
		"postgres": func(t testing.TB) string { return postgrestest.Start(t).Address("postgres") },
		"dynamodb": func(t testing.TB) string { return dynamotest.Start(t).URL },
	} {
		t.Run(name, func(t *testing.T) { testSendersAreKilled(t, n, start(t)) })
	}
}

func testSendersAreKilled(t *testing.T, n size, address string) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	redis := "redis://" + redistest.Server(t)
	b := sell(t, redis, n.orders, n.identities)
	lines := b.lines(t)
	days := b.days(t, lines)
	store := storeAt(t, address)
	if table, is := store.(*dynamostore.Store); is {
		if err := table.Init(ctx, false); err != nil {
			t.Fatal(err)
		}
	}
	living, dying := n.spawn(ctx, t, redis, address)
	for _, c := range slices.Concat(living, dying) {
		if _, err := c.in.Write([]byte{'\n'}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range dying {
		c.died(t)
	}
	testkit.Within(t, patience, "nothing to be left", func() bool {
		left, err := b.stock.Endings.Sweep(ctx)
		return err == nil && len(left) == 0
	})
	sent := 0
	for _, c := range living {
		sent += c.end(t)
	}
	b.equal(t, store, days)
	(&late{lines: lines}).send(t, store)
	b.equal(t, store, days)
	t.Logf("of %d orders %d were sent by the %d processes that lived", n.orders, sent, n.living)
}
