package history_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/history"
	"poold/internal/history/dynamostore"
	"poold/internal/history/pgstore"
	"poold/internal/history/redisstore"
	"poold/internal/pool"
	"poold/internal/postgres"
)

// patience limits each step on a busy machine.
const patience = 2 * time.Minute

// sendingEnv is an environment variable. If it is set, this test process is one of the processes that
// TestSendersAreKilled starts.
const sendingEnv = "POOLD_TEST_SENDER"

// instructions contains the instructions for a process.
type instructions struct {
	Redis, Store string // addresses
	Identities   int    // the number of identities with ended orders
	Dies         string // point at which the process kills itself; "" = none
	Pass         int    // at which pass of this point the process kills itself
}

// The points at which a process kills itself.
const (
	whileSending = "sending"  // a part of a request has been sent
	halfWritten  = "answered" // the store has answered a part of a Write, and the rest of the answer is lost
	notForgotten = "written"  // the batch is in the store and still in Redis
)

// dyingProcess is a process that may kill itself. It wraps the outbox and the store of its sender.
type dyingProcess struct {
	instructions
	from    *pool.Endings
	to      history.Store
	held    []pool.EndedOrder
	start   chan struct{} // closed when all processes have read ended orders
	writing atomic.Bool   // a Write runs
	asked   atomic.Bool   // a request has no answer yet
	passed  atomic.Int64
}

// dieAt kills the process with SIGKILL if its instructions name this point and this pass.
func (d *dyingProcess) dieAt(point string) {
	if point == d.Dies && d.passed.Add(1) == int64(d.Pass) {
		fmt.Println("dies")
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

// Kept implements history.Outbox. It returns the first ended orders only after all processes have read
// some. Until then, a process that is going to die gets the same ended orders again, even if other
// processes have sent them.
func (d *dyingProcess) Kept(ctx context.Context, ids []captcha.ID, most int) ([]pool.EndedOrder, error) {
	if d.Dies != "" && d.held != nil {
		return d.held, nil
	}
	kept, err := d.from.Kept(ctx, ids, most)
	if err == nil && d.held == nil {
		d.held = kept
		fmt.Println("holds", len(kept))
		<-d.start
	}
	return kept, err
}

// Forget implements history.Outbox.
func (d *dyingProcess) Forget(ctx context.Context, orders []pool.EndedOrder) error {
	d.dieAt(notForgotten)
	return d.from.Forget(ctx, orders)
}

// Sweep implements history.Outbox.
func (d *dyingProcess) Sweep(ctx context.Context) ([]captcha.ID, error) { return d.from.Sweep(ctx) }

// Write implements history.Writer.
func (d *dyingProcess) Write(ctx context.Context, batch []history.Record) error {
	d.writing.Store(true)
	defer d.writing.Store(false)
	return d.to.Write(ctx, batch)
}

func (d *dyingProcess) startProxy(t *testing.T, address string) string {
	t.Helper()
	to, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	server := to.Host
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			store, err := net.Dial("tcp", server)
			if err != nil {
				_ = client.Close()
				continue
			}
			go d.carry(store, client, "", whileSending)
			go d.carry(client, store, halfWritten, "")
		}
	}()
	to.Host = listener.Addr().String()
	return to.String()
}

// carry copies the data of one direction of a connection. During a Write it calls dieAt(before) before
// each answer, and dieAt(after) after each part of a request.
func (d *dyingProcess) carry(to, from net.Conn, before, after string) {
	defer func() { _, _ = to.Close(), from.Close() }()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		writing := d.writing.Load()
		if before != "" && d.asked.Swap(false) && writing {
			d.dieAt(before)
		}
		if after != "" {
			d.asked.Store(true)
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
		if after != "" && writing {
			d.dieAt(after)
		}
	}
}

// send is the main function of a process. It sends ended orders until its input closes or the process
// kills itself.
func send(t *testing.T, text string) {
	d := &dyingProcess{start: make(chan struct{})}
	if err := json.Unmarshal([]byte(text), &d.instructions); err != nil {
		t.Fatal(err)
	}
	d.from, d.to = stockAt(t, d.Redis).Endings, storeAt(t, d.startProxy(t, d.Store))
	if _, err := d.to.Day(t.Context(), time.Now()); err != nil { // opens the connection to the store
		t.Fatal(err)
	}
	s := history.NewSender(d, d, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	for i := range d.Identities {
		s.Ended(subject(i).Identity.ID())
	}
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1))
		close(d.start)
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	if err := s.Run(ctx); err != nil {
		t.Error(err)
	}
	fmt.Println("sent", s.Health().Sent)
}

// stockAt opens the Redis at an address.
func stockAt(t *testing.T, address string) *pool.Store {
	t.Helper()
	stock, err := pool.Open(pool.Options{Addresses: address, Prefix: "killed", Endings: 1000, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stock.Close() })
	return stock
}

func storeAt(t *testing.T, address string) history.Store {
	t.Helper()
	scheme, _, _ := strings.Cut(address, ":")
	switch log := slog.New(slog.DiscardHandler); scheme {
	case "redis":
		return redisstore.New(stockAt(t, address).DB, redisstore.Options{})
	case "postgres":
		db, err := postgres.Open(address, postgres.Options{Log: log, Limit: patience})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(db.Close)
		if err := db.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		return pgstore.New(db, pgstore.Options{})
	default:
		table, err := dynamostore.Open(t.Context(), dynamostore.Options{Endpoint: address})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(table.Close)
		return table
	}
}
