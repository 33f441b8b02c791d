package postgres

import (
	"context"
	"testing"
	"time"

	"poold/internal/postgres/postgrestest"
	"poold/internal/testkit"
)

// endOthers ends all other connections to a database.
const endOthers = `select pg_terminate_backend(pid) from pg_stat_activity
	where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()`

func open(t *testing.T, address string, limit time.Duration) (*DB, *testkit.Log) {
	t.Helper()
	l := &testkit.Log{}
	db, err := Open(address, limit, l.Logger())
	testkit.NoError(t, err)
	t.Cleanup(db.Close)
	return db, l
}

// run runs DB.Run, which cleans nothing, until stop is called or the test ends.
func run(t *testing.T, db *DB) (stop func()) {
	t.Helper()
	return testkit.Run(t, func(ctx context.Context) error {
		return db.Run(ctx, time.Hour, nil)
	})
}

// openMigrated opens a database and brings its schema up to date.
func openMigrated(t *testing.T, address string, limit time.Duration) (*DB, *testkit.Log) {
	t.Helper()
	db, l := open(t, address, limit)
	testkit.NoError(t, db.Migrate(t.Context()))
	return db, l
}

// reading is a statement that changes nothing.
const reading = "select 1"

// exec executes a statement in a transaction.
func exec(t *testing.T, db *DB, sql string) error {
	t.Helper()
	return db.Do(t.Context(), func(ctx context.Context, tx Tx) error {
		_, err := tx.Exec(ctx, sql)
		return err
	})
}

// works waits until a statement succeeds.
func works(t *testing.T, db *DB, sql string) {
	t.Helper()
	testkit.Within(t, postgrestest.Patience, "no error: "+sql, func() bool { return exec(t, db, sql) == nil })
}

// logs waits until the log has a text.
func logs(t *testing.T, l *testkit.Log, text string) {
	t.Helper()
	testkit.Within(t, postgrestest.Patience, "in the log: "+text, func() bool { return l.Count(text) > 0 })
}

// TestOnAServer runs the tests that need a server.
func TestOnAServer(t *testing.T) {
	postgrestest.On(t, map[string]func(*testing.T, *postgrestest.Cluster){
		"Down":         testDown,
		"Heals":        testHeals,
		"Session":      testSession,
		"ReadOnly":     testReadOnly,
		"Transactions": testTransactions,
		"Cleaning":     testCleaning,
		"Migrate":      testMigrate,
		"Try":          testTry,
		"DroppedTable": testDroppedTable,
	})
}
