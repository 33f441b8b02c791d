package postgres

import (
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
	const change = "update poold_schema set version_id = version_id"
	works(t, db, change)
	demoted := "alter database " + address[strings.LastIndex(address, "/")+1:]
	server.SQL(t, elsewhere, demoted+" set default_transaction_read_only = on")
	server.SQL(t, address, endOthers)
	testkit.Within(t, postgrestest.Patience, "refused", func() bool {
		err := exec(t, db, change)
		return errors.Is(err, ErrDown) && strings.Contains(err.Error(), "it takes no changes (SQLSTATE 25006)")
	})
	logs(t, l, "it takes no changes")
	works(t, db, reading)
	server.SQL(t, elsewhere, demoted+" reset default_transaction_read_only")
	works(t, db, change)
	logs(t, l, `"postgres serves again"`)
}
