//go:build !race

package pgstore

import (
	"context"
	"testing"
	"time"

	"poold/internal/history"
	"poold/internal/history/historytest"
	"poold/internal/postgres"
	"poold/internal/postgres/postgrestest"
	"poold/internal/testkit"
)

// opened is one daemon's store, until the test ends. The schema is made where the server answers. Nothing is deleted.
func opened(t testing.TB, address string, limit, keep time.Duration) (*Store, *testkit.Log) {
	t.Helper()
	l := &testkit.Log{}
	log := l.Logger()
	db, err := postgres.Open(address, postgres.Options{Log: log, Limit: limit})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	_ = db.Migrate(t.Context())
	return New(db, Options{Keep: keep, KeepAudit: keep, Clean: 300 * time.Millisecond}), l
}

// PostgreSQL keeps records and the audit as the suite wants it, on two replicas that delete at the same time what is
// old, and no transaction is in the way of another.
func testRecords(t *testing.T, server *postgrestest.Server) {
	address := server.Database(t)
	stores := make([]*Store, 2)
	for i := range stores {
		s, _ := opened(t, address, postgrestest.Patience, 7*24*time.Hour)
		postgrestest.Run(t, s.Run)
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

// The order of records is that of their IDs' bytes, also where the database's language orders texts in another way.
func testAnotherLanguage(t *testing.T, server *postgrestest.Server) {
	server.SQL(t, "postgres", "create database english template template0 locale_provider icu icu_locale 'en'")
	if got := server.SQL(t, "english", "select 'a' < 'B'"); got != "t" {
		t.Fatalf("a < B: %s", got)
	}
	s, _ := opened(t, server.Address("english"), postgrestest.Patience, 0)
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
	postgrestest.On(t, map[string]func(*testing.T, *postgrestest.Server){
		"Records":          testRecords,
		"AnotherLanguage":  testAnotherLanguage,
		"Indexes":          testIndexes,
		"OldRecords":       testOldRecords,
		"OldEntries":       testOldEntries,
		"ConnectionsBreak": testConnectionsBreak,
		"Away":             testAway,
		"BytesThatAreNone": testBytesThatAreNone,
	})
}
