//go:build !race

package pgstore

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"poold/internal/history"
	"poold/internal/history/historytest"
	"poold/internal/postgres"
	"poold/internal/postgres/postgrestest"
)

// patient is the limit of a call where a busy machine must not fail a test.
const patient = 20 * time.Second

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

// opened is one daemon's store, until the test ends. The schema is made where the server
// answers. Nothing is deleted.
func opened(t testing.TB, address string, limit, keep time.Duration) (*Store, *logs) {
	t.Helper()
	l := &logs{}
	log := slog.New(slog.NewTextHandler(l, nil))
	db, err := postgres.Open(address, postgres.Options{Log: log, Limit: limit})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	_ = db.Migrate(t.Context())
	return New(db, Options{Log: log, Keep: keep, KeepAudit: keep, Clean: 300 * time.Millisecond}), l
}

// run runs a store until the test ends.
func run(t testing.TB, s *Store) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Errorf("running: %v", err)
		}
	})
	t.Cleanup(func() {
		cancel()
		group.Wait()
	})
}

// PostgreSQL keeps records and the audit as the suite wants it, on two replicas that delete at the same
// time what is old, and no transaction is in the way of another.
func testRecords(t *testing.T, server *postgrestest.Server) {
	address := server.Database(t)
	stores := make([]*Store, 2)
	for i := range stores {
		s, _ := opened(t, address, patient, 7*24*time.Hour)
		run(t, s)
		stores[i] = s
	}
	historytest.Test(t, func(t testing.TB) []history.Store {
		empty(t, stores[0])
		return []history.Store{stores[0], stores[1]}
	})
	historytest.TestAudit(t, func(t testing.TB) []history.Audit {
		empty(t, stores[0])
		return []history.Audit{stores[0], stores[1]}
	})
	if n := server.SQL(t, address, "select deadlocks from pg_stat_database where datname = current_database()"); n != "0" {
		t.Errorf("%s deadlocks", n)
	}
}

// The order of records is that of their IDs' bytes, also where the database's language
// orders texts in another way.
func testAnotherLanguage(t *testing.T, server *postgrestest.Server) {
	server.SQL(t, "postgres", "create database english template template0 locale_provider icu icu_locale 'en'")
	if got := server.SQL(t, "english", "select 'a' < 'B'"); got != "t" {
		t.Fatalf("a < B: %s", got)
	}
	s, _ := opened(t, server.Address("english"), patient, 0)
	historytest.Suite["OneMillisecond"](t, func(testing.TB) []history.Store { return []history.Store{s} })
	historytest.AuditSuite["EntriesOfOneMillisecond"](t, func(testing.TB) []history.Audit { return []history.Audit{s} })
}

// empty deletes all. Of the few rows of a test that is faster than truncate.
func empty(t testing.TB, s *Store) {
	t.Helper()
	if err := s.db.Do(t.Context(), func(ctx context.Context, tx postgres.Tx) error {
		_, err := tx.Exec(ctx, "delete from captcha_solves; delete from captcha_figures; delete from captcha_audit; delete from captcha_audit_figures")
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// One server serves all tests that need one.
func TestOnAServer(t *testing.T) {
	server := postgrestest.Start(t)
	for name, test := range map[string]func(*testing.T, *postgrestest.Server){
		"Records":          testRecords,
		"AnotherLanguage":  testAnotherLanguage,
		"Indexes":          testIndexes,
		"OldRecords":       testOldRecords,
		"OldEntries":       testOldEntries,
		"ConnectionsBreak": testConnectionsBreak,
		"Away":             testAway,
		"BytesThatAreNone": testBytesThatAreNone,
	} {
		t.Run(name, func(t *testing.T) { test(t, server) })
	}
}
