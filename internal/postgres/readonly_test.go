package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"

	"poold/internal/postgres/postgrestest"
	"poold/internal/testkit"
)

// When a read-only server takes changes again, the program uses it without a restart: connections that were made while
// it was read-only refuse changes until they end.
func testReadOnly(t *testing.T, server *postgrestest.Cluster) {
	address, elsewhere := server.Database(t), server.Database(t)
	db, l := openMigrated(t, address, DefaultLimit)
	run(t, db)
	change := func() error {
		return db.Do(t.Context(), func(ctx context.Context, tx Tx) error {
			_, err := tx.Exec(ctx, "update poold_schema set version_id = version_id")
			return err
		})
	}
	testkit.Within(t, postgrestest.Patience, "the first change", func() bool { return change() == nil })
	demoted := "alter database " + address[strings.LastIndex(address, "/")+1:]
	server.SQL(t, elsewhere, demoted+" set default_transaction_read_only = on")
	server.SQL(t, address, endOthers)
	testkit.Within(t, postgrestest.Patience, "refused", func() bool {
		err := change()
		return errors.Is(err, ErrDown) && strings.Contains(err.Error(), "it takes no changes (SQLSTATE 25006)")
	})
	testkit.Within(t, postgrestest.Patience, "logged",
		func() bool { return strings.Contains(l.String(), "it takes no changes") })
	testkit.Within(t, postgrestest.Patience, "a reading", func() bool { return selectOne(t.Context(), db) == nil })
	server.SQL(t, elsewhere, demoted+" reset default_transaction_read_only")
	testkit.Within(t, postgrestest.Patience, "healed", func() bool { return change() == nil })
	testkit.Within(t, postgrestest.Patience, "logged",
		func() bool { return strings.Contains(l.String(), `"postgres serves again"`) })
}
