package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"

	"poold/internal/postgres/postgrestest"
	"poold/internal/testkit"
)

// change executes a statement that changes rows.
func change(ctx context.Context, db *DB) error {
	return db.Do(ctx, func(ctx context.Context, tx Tx) error {
		_, err := tx.Exec(ctx, "update poold_schema set version_id = version_id")
		return err
	})
}

// When a read-only server accepts changes again, the program uses the server without a restart.
// Connections that were made while the server was read-only refuse changes until they end.
func testReadOnly(t *testing.T, server *postgrestest.Server) {
	elsewhere := server.Database(t)
	for name, c := range map[string]struct{ demote, promote string }{
		"new connections refuse changes": {
			"alter database %s set default_transaction_read_only = on",
			"alter database %s reset default_transaction_read_only",
		},
		"connections stay and refuse changes": {
			"alter system set default_transaction_read_only = on",
			"alter system reset default_transaction_read_only",
		},
	} {
		t.Run(name, func(t *testing.T) {
			address := server.Database(t)
			db, l := openMigrated(t, address, 0)
			runNews(t, db)
			testkit.Within(t, postgrestest.Patience, "the first change", func() bool { return change(t.Context(), db) == nil })
			database := server.SQL(t, address, "select current_database()")
			set := func(statement string) {
				t.Helper()
				server.SQL(t, elsewhere+"?options=-cdefault_transaction_read_only%3Doff", strings.ReplaceAll(statement, "%s", database))
				server.SQL(t, elsewhere, "select pg_reload_conf()")
			}
			defer set(c.promote)
			set(c.demote)
			if strings.Contains(c.demote, "database") {
				server.SQL(t, address, endOthers)
			}
			var err error
			testkit.Within(t, postgrestest.Patience, "refused", func() bool {
				err = change(t.Context(), db)
				return err != nil && strings.Contains(err.Error(), readOnly)
			})
			if !errors.Is(err, ErrDown) {
				t.Errorf("changing: %v", err)
			}
			testkit.Within(t, postgrestest.Patience, "logged", func() bool { return strings.Contains(l.String(), "it takes no changes") })
			testkit.Within(t, postgrestest.Patience, "a reading", func() bool { return selectOne(t.Context(), db) == nil })
			set(c.promote)
			testkit.Within(t, postgrestest.Patience, "healed", func() bool { return change(t.Context(), db) == nil })
			testkit.Within(t, postgrestest.Patience, "logged", func() bool { return strings.Contains(l.String(), `"postgres serves again"`) })
		})
	}
}

// If the server refuses a change, the DB drops its connections even if Run does not run. The
// next call uses a new connection.
func testReadOnlyWithoutRun(t *testing.T, server *postgrestest.Server) {
	address, elsewhere := server.Database(t), server.Database(t)
	openMigrated(t, address, postgrestest.Patience)
	database := server.SQL(t, address, "select current_database()")
	server.SQL(t, elsewhere, "alter database "+database+" set default_transaction_read_only = on")
	db, _ := openMigrated(t, address, postgrestest.Patience)
	if err := change(t.Context(), db); !errors.Is(err, ErrDown) || !strings.Contains(err.Error(), readOnly) {
		t.Fatalf("changing: %v", err)
	}
	if err := selectOne(t.Context(), db); err != nil { // this call opens a connection that refuses changes
		t.Fatal(err)
	}
	server.SQL(t, elsewhere, "alter database "+database+" reset default_transaction_read_only")
	_ = change(t.Context(), db)
	if err := change(t.Context(), db); err != nil {
		t.Errorf("the second change after the recovery: %v", err)
	}
}
