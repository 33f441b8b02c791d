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

	"poold/internal/history"
	"poold/internal/history/dynamostore"
	"poold/internal/history/pgstore"
	"poold/internal/history/redisstore"
	"poold/internal/pool"
	"poold/internal/postgres"
	"poold/internal/redisdb"
)

// patience limits each step on a busy machine.
const patience = 2 * time.Minute

// sendingEnv is an environment variable. If it is set, this test process is one of the processes that
// TestSendersAreKilled starts.
const sendingEnv = "POOLD_TEST_SENDER"

// instructions contains the instructions for a process.
type instructions struct {
	Redis, Store string // addresses
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
	*pool.Pool
	to      history.Store
	held    []pool.Row  // the first rows
	writing atomic.Bool // a Write runs
	asked   atomic.Bool // a request has no answer yet
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

// Rows implements history.Outbox. A process that is going to die always returns the rows that it read first, like one
// that was frozen and whose turn is over.
func (d *dyingProcess) Rows(ctx context.Context, stream string, most int) ([]pool.Row, bool, error) {
	if d.Dies != "" {
		return d.held, true, nil
	}
	return d.Pool.Rows(ctx, stream, most)
}

// hold reads the first rows, and waits until all processes have done so.
func (d *dyingProcess) hold(t *testing.T) {
	for mine, err := false, error(nil); !mine; {
		if d.held, mine, err = d.Pool.Rows(t.Context(), pool.Ends, history.MostBatch); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Pool.Done(t.Context(), pool.Ends, nil); err != nil {
		t.Fatal(err)
	}
	fmt.Println("holds", len(d.held))
	_, _ = os.Stdin.Read(make([]byte, 1))
}

// Done implements history.Outbox.
func (d *dyingProcess) Done(ctx context.Context, stream string, ids []string) error {
	d.dieAt(notForgotten)
	return d.Pool.Done(ctx, stream, ids)
}

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
	d := &dyingProcess{}
	if err := json.Unmarshal([]byte(text), &d.instructions); err != nil {
		t.Fatal(err)
	}
	d.Pool, d.to = poolOf(dbAt(t, d.Redis)), storeAt(t, d.startProxy(t, d.Store))
	if _, err := d.to.Day(t.Context(), time.Now()); err != nil { // opens the connection to the store
		t.Fatal(err)
	}
	d.hold(t)
	s := history.NewSender(d, d, nil, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	if err := s.Run(ctx); err != nil {
		t.Error(err)
	}
	fmt.Println("sent", s.Health().Sent)
}

// dbAt opens the Redis at an address.
func dbAt(t *testing.T, address string) *redisdb.DB {
	t.Helper()
	db, err := redisdb.Open(redisdb.Options{Addresses: address, Prefix: "killed", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// poolOf returns the pool of another replica.
func poolOf(db *redisdb.DB) *pool.Pool {
	return pool.New(pool.Config{DB: db.Slow, Prefix: db.Prefix, Log: slog.New(slog.DiscardHandler)})
}

func storeAt(t *testing.T, address string) history.Store {
	t.Helper()
	scheme, _, _ := strings.Cut(address, ":")
	switch log := slog.New(slog.DiscardHandler); scheme {
	case "redis":
		return redisstore.New(dbAt(t, address), redisstore.Options{})
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
