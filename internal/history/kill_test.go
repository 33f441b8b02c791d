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
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"poold/internal/history"
	"poold/internal/history/dynamostore"
	"poold/internal/history/dynamotest"
	"poold/internal/pool"
	"poold/internal/postgres/postgrestest"
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

// lateReplica is a replica that reads all rows, hangs, and later continues. It also implements the Outbox of its
// sender.
type lateReplica struct {
	mu   sync.Mutex
	rows []pool.Row
}

// Rows implements history.Outbox.
func (l *lateReplica) Rows(_ context.Context, _ string, most int) ([]pool.Row, bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.rows[:min(most, len(l.rows))]), true, nil
}

// Done implements history.Outbox.
func (l *lateReplica) Done(_ context.Context, _ string, ids []string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rows = slices.DeleteFunc(l.rows, func(r pool.Row) bool { return slices.Contains(ids, r.ID) })
	return nil
}

// allSent reports whether all rows are sent.
func (l *lateReplica) allSent() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.rows) == 0
}

// send runs a sender until all rows are sent.
func (l *lateReplica) send(t *testing.T, to history.Writer) {
	t.Helper()
	s := history.NewSender(l, to, nil, slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() { _ = s.Run(ctx) })
	testkit.Within(t, patience, "all to be sent a second time", l.allSent)
	stop()
	group.Wait()
}

// child is a process that runs a sender.
type child struct {
	instructions
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Scanner
}

// spawn starts a process.
func spawn(ctx context.Context, t *testing.T, told instructions) *child {
	t.Helper()
	text, err := json.Marshal(told)
	if err != nil {
		t.Fatal(err)
	}
	c := &child{instructions: told, command: exec.CommandContext(ctx, os.Args[0], "-test.run=^TestSendersAreKilled$")}
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

// waitForWord waits until the process prints a word, and returns the number that follows the word.
func (c *child) waitForWord(t *testing.T, word string) (n int) {
	t.Helper()
	for c.out.Scan() {
		if said, is := strings.CutPrefix(c.out.Text(), word); is {
			_, _ = fmt.Sscan(said, &n)
			return n
		}
		t.Log(c.Dies, c.Pass, c.out.Text())
	}
	t.Fatalf("a process that dies at %q, pass %d, never printed %q", c.Dies, c.Pass, word)
	return 0
}

// waitForDeath waits until the process has killed itself.
func (c *child) waitForDeath(t *testing.T) {
	t.Helper()
	c.waitForWord(t, "dies")
	var killed *exec.ExitError
	if err := c.command.Wait(); !errors.As(err, &killed) || killed.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("a process that kills itself: %v", err)
	}
}

// stop ends a process and returns the number of records that it sent.
func (c *child) stop(t *testing.T) (sent int) {
	t.Helper()
	_ = c.in.Close()
	sent = c.waitForWord(t, "sent")
	if err := c.command.Wait(); err != nil {
		t.Error(err)
	}
	return sent
}

// size contains the numbers of orders, of identities, and of processes that live or die.
type size struct{ orders, identities, living, dying int }

// deaths lists the points and passes at which the first processes kill themselves. If there are
// more dying processes than points in the list, the next processes use the same points, but kill
// themselves two passes later.
var deaths = []struct {
	at   string
	pass int
}{{halfWritten, 1}, {whileSending, 2}, {notForgotten, 1}, {halfWritten, 2}}

// spawn starts the processes and waits until each process has read its first rows.
func (n size) spawn(ctx context.Context, t *testing.T, redis, store string) (living, dying []*child) {
	t.Helper()
	told := instructions{Redis: redis, Store: store}
	for range n.living {
		living = append(living, spawn(ctx, t, told))
	}
	for i := range n.dying {
		told.Dies, told.Pass = deaths[i%len(deaths)].at, deaths[i%len(deaths)].pass+2*(i/len(deaths))
		dying = append(dying, spawn(ctx, t, told))
	}
	for _, c := range slices.Concat(living, dying) {
		if held := c.waitForWord(t, "holds"); held < history.MostBatch {
			t.Fatalf("a process begins with %d rows", held)
		}
	}
	return living, dying
}

// Several processes send ended orders concurrently. Some of them are killed in the middle of a
// request, in the middle of a batch, or between the write and the removal. At last a replica that
// had hung sends all ended orders again. Each order has one record, the figures of the days are
// exact, and the outbox in Redis is empty.
//
// Without -short there are 10,000 orders and 20 processes:
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
	rows := b.rows(t)
	days := b.days(rows)
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
		c.waitForDeath(t)
	}
	testkit.Within(t, patience, "nothing to be left", func() bool {
		left, _, err := b.pool.Outbox(ctx, pool.Ends)
		return err == nil && left == 0
	})
	sent := 0
	for _, c := range living {
		sent += c.stop(t)
	}
	b.compare(t, store, days)
	(&lateReplica{rows: rows}).send(t, store)
	b.compare(t, store, days)
	t.Logf("of %d orders %d were sent by the %d processes that lived", n.orders, sent, n.living)
}
