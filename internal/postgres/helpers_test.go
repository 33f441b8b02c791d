package postgres

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"poold/internal/postgres/postgrestest"
)

// patient is the limit of a call where a busy machine must not fail a test.
const patient = 20 * time.Second

// endOthers cuts all connections to a database.
const endOthers = `select pg_terminate_backend(pid) from pg_stat_activity
	where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()`

// logs is what was logged.
type logs struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logs) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// open opens a database until the test ends.
func open(t *testing.T, address string, limit time.Duration) (*DB, *logs) {
	t.Helper()
	l := &logs{}
	db, err := Open(address, Options{Log: slog.New(slog.NewTextHandler(l, nil)), Limit: limit})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db, l
}

// run runs a database on the channel "news" until stop is called or the test ends, and
// hands on what it hears.
func run(t *testing.T, db *DB) (heard chan string, stop func()) {
	t.Helper()
	heard = make(chan string, 1000)
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() {
		if err := db.Run(ctx, "news", func(payload string) { heard <- payload }); err != nil {
			t.Errorf("running: %v", err)
		}
	})
	stop = func() {
		cancel()
		group.Wait()
	}
	t.Cleanup(stop)
	return heard, stop
}

// migrated is a database whose schema is there.
func migrated(t *testing.T, address string, limit time.Duration) (*DB, *logs) {
	t.Helper()
	db, l := open(t, address, limit)
	if err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return db, l
}

// one asks for the number 1.
func one(ctx context.Context, db *DB) error {
	return db.Do(ctx, func(ctx context.Context, tx Tx) error {
		var n int
		return tx.First(ctx, []any{&n}, "select 1")
	})
}

// until waits until something is so.
func until(t *testing.T, what string, so func() bool) {
	t.Helper()
	for began := time.Now(); !so(); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > patient {
			t.Fatalf("%s: not within %v", what, patient)
		}
	}
}

// inASecond does something again until it took less than a second, which a machine that is
// busy may not manage at once.
func inASecond(t *testing.T, do func()) {
	t.Helper()
	var took time.Duration
	for range 5 {
		began := time.Now()
		do()
		if took = time.Since(began); took < time.Second {
			return
		}
	}
	t.Errorf("took %v", took)
}

// silent checks that a text says nothing of the address.
func silent(t *testing.T, what, text string) {
	t.Helper()
	for _, secret := range []string{postgrestest.Password, "postgrestest", "127.0.0.1", "test_", "no-such"} {
		if strings.Contains(text, secret) {
			t.Errorf("%s says %q: %s", what, secret, text)
		}
	}
}

// One server serves all tests that need one.
func TestOnAServer(t *testing.T) {
	server := postgrestest.Start(t)
	for name, test := range map[string]func(*testing.T, *postgrestest.Server){
		"Down":                 testDown,
		"Heals":                testHeals,
		"CallsOutliveARestart": testCallsOutliveARestart,
		"FourConnections":      testFourConnections,
		"NothingIsPrepared":    testNothingIsPrepared,
		"ReadOnly":             testReadOnly,
		"Transactions":         testTransactions,
		"Notifications":        testNotifications,
		"Migrate":              testMigrate,
		"DroppedTable":         testDroppedTable,
		"DroppedEarlier":       testDroppedTableOfAnEarlierVersion,
	} {
		t.Run(name, func(t *testing.T) { test(t, server) })
	}
}
