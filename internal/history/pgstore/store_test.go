//go:build !race

package pgstore

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"poold/internal/history"
	"poold/internal/history/historytest"
	"poold/internal/postgres"
	"poold/internal/postgres/postgrestest"
	"poold/internal/testkit"
)

// openStore returns the store of one daemon until the test ends. If the server responds, openStore
// creates the schema. It does not run the deletion of expired rows.
func openStore(t testing.TB, address string, limit, keep time.Duration) (*Store, *testkit.Log) {
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

// Two replicas pass the suites while both replicas delete expired rows. No deadlock occurs.
func testRecords(t *testing.T, server *postgrestest.Server) {
	address := server.Database(t)
	stores := make([]*Store, 2)
	for i := range stores {
		s, _ := openStore(t, address, postgrestest.Patience, 7*24*time.Hour)
		postgrestest.Run(t, s.Run)
		stores[i] = s
	}
	historytest.Test(t, func(t testing.TB) []history.Store {
		deleteRows(t, stores[0])
		return []history.Store{stores[0], stores[1]}
	})
	historytest.TestAudit(t, func(t testing.TB) []history.Audit {
		deleteRows(t, stores[0])
		return []history.Audit{stores[0], stores[1]}
	})
	if n := server.SQL(t, address, "select deadlocks from pg_stat_database where datname = current_database()"); n != "0" {
		t.Errorf("%s deadlocks", n)
	}
}

// Records are sorted by the bytes of their IDs, even if the database sorts texts by the rules of a
// language.
func testAnotherLanguage(t *testing.T, server *postgrestest.Server) {
	server.SQL(t, "postgres", "create database english template template0 locale_provider icu icu_locale 'en'")
	if got := server.SQL(t, "english", "select 'a' < 'B'"); got != "t" {
		t.Fatalf("a < B: %s", got)
	}
	s, _ := openStore(t, server.Address("english"), postgrestest.Patience, 0)
	historytest.Suite["OneMillisecond"](t, func(testing.TB) []history.Store { return []history.Store{s} })
	historytest.AuditSuite["EntriesOfOneMillisecond"](t, func(testing.TB) []history.Audit { return []history.Audit{s} })
}

// An option that is not set has its default, even if another option is set.
func TestDefaultOptions(t *testing.T) {
	for _, c := range []struct{ of, want Options }{
		{Options{}, Options{quarter, quarter, time.Minute}},
		{Options{Keep: time.Hour}, Options{time.Hour, quarter, time.Minute}},
		{Options{KeepAudit: time.Hour}, Options{quarter, time.Hour, time.Minute}},
		{Options{Clean: time.Hour}, Options{quarter, quarter, time.Hour}},
	} {
		if got := New(nil, c.of).o; got != c.want {
			t.Errorf("%+v becomes %+v, want %+v", c.of, got, c.want)
		}
	}
}

// Records and audit entries have separate retention times.
func testKeepingTimes(t *testing.T, server *postgrestest.Server) {
	historytest.TestKeepingTimes(t, func(t testing.TB, keep, keepAudit time.Duration) (history.Store, history.Audit) {
		s, _ := openStore(t, server.Database(t), postgrestest.Patience, keep)
		s.o.KeepAudit = keepAudit
		return s, s
	})
}

// If JSON cannot express the time of a record, the write fails because of the content, not with an
// ErrDown. The sender would retry after an ErrDown, and the record would block all later records.
// No record of the batch is written.
func testInvalidTimes(t *testing.T, server *postgrestest.Server) {
	s, _ := openStore(t, server.Database(t), postgrestest.Patience, 0)
	good, bad := record("good", time.Now()), record("bad", time.Now().AddDate(9000, 0, 0))
	entry := history.Entry{ID: "e", Key: "key", At: bad.Ended, Action: history.Taken}
	for what, err := range map[string]error{
		"writing records: ":   s.Write(t.Context(), []history.Record{good, bad}),
		"writing the audit: ": s.WriteEntries(t.Context(), []history.Entry{entry}),
	} {
		if err == nil || errors.Is(err, history.ErrDown) || !strings.HasPrefix(err.Error(), what) {
			t.Errorf("%s%v", what, err)
		}
	}
	if _, found, err := s.Solve(t.Context(), good.ID); found || err != nil {
		t.Errorf("the other record is there: %v, %v", found, err)
	}
	if err := s.Write(t.Context(), []history.Record{good}); err != nil {
		t.Errorf("writing the other record: %v", err)
	}
}

// Two replicas play random stories. An outage breaks their connections.
func testStories(t *testing.T, server *postgrestest.Server) {
	thief, through := postgrestest.Through(t, server.Database(t))
	var place historytest.Place
	var s *Store
	for range 2 {
		s, _ = openStore(t, through, postgrestest.Patience, historytest.StoryKeep)
		place.Stores, place.Audits = append(place.Stores, s), append(place.Audits, s)
	}
	place.Down = thief.Close
	historytest.Stories(t, 1, func(t *testing.T, seed uint64) {
		deleteRows(t, s)
		place.Delete = func() {
			if err := errors.Join(s.forget(t.Context()), s.forgetAudit(t.Context())); err != nil {
				t.Fatal(err)
			}
		}
		historytest.Play(t, seed, place)
	})
}

// deleteRows deletes all rows. It uses the SQL statement delete, which for a few rows is faster
// than truncate.
func deleteRows(t testing.TB, s *Store) {
	t.Helper()
	if err := s.db.Do(t.Context(), func(ctx context.Context, tx postgres.Tx) error {
		_, err := tx.Exec(ctx, "delete from captcha_solves; delete from captcha_figures; delete from captcha_audit; delete from captcha_audit_figures")
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// TestOnAServer runs the tests that need a server.
func TestOnAServer(t *testing.T) {
	postgrestest.On(t, map[string]func(*testing.T, *postgrestest.Server){
		"Records":         testRecords,
		"AnotherLanguage": testAnotherLanguage,
		"Indexes":         testIndexes,
		"ExpiredRecords":  testExpiredRecords,
		"ExpiredEntries":  testExpiredEntries,
		"Connections":     testBrokenConnections,
		"Outages":         testOutages,
		"InvalidTexts":    testInvalidTexts,
		"InvalidTimes":    testInvalidTimes,
		"KeepingTimes":    testKeepingTimes,
		"Stories":         testStories,
	})
}
