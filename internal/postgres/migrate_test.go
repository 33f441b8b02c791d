package postgres

import (
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"poold/internal/postgres/postgrestest"
	"poold/internal/testkit"
)

// allVersions is the result of the function versions after Migrate has applied all files.
const allVersions = "1 2"

// versions returns the applied versions in the database.
func versions(t *testing.T, server *postgrestest.Cluster, address string) string {
	t.Helper()
	return strings.ReplaceAll(server.SQL(t, address,
		"select version_id from poold_schema where version_id > 0 order by id"), "\n", " ")
}

// shape lists the columns and indexes of the schema with their types and defaults.
const shape = `select table_name, column_name, data_type, is_nullable, column_default, collation_name
	from information_schema.columns where table_schema = 'public' order by table_name, column_name;
	select indexdef from pg_indexes where schemaname = 'public' order by 1`

// If a table was dropped, each call that needs it fails with the name of the table and the remedy.
// Migrate makes the table again. The rows of other tables stay.
func testDroppedTable(t *testing.T, server *postgrestest.Cluster) {
	address := server.Database(t)
	db, _ := openMigrated(t, address, postgrestest.Patience)
	made := strings.Fields(server.SQL(t, address,
		"select tablename from pg_tables where schemaname = 'public' order by 1"))
	testkit.DeepEqual(t, "tables that the files make", made, append(slices.Clone(tables), "poold_schema"))
	whole := server.SQL(t, address, shape)
	server.SQL(t, address, "insert into captcha_days values ('2026-01-02', 'target', 'login', 'qa', 'lost', 5)")
	server.SQL(t, address, "drop table captcha_history")
	err := exec(t, db, "delete from captcha_history")
	if !errors.Is(err, ErrDown) ||
		!strings.Contains(err.Error(), "the table captcha_history does not exist: poold history init makes it") {
		t.Errorf("calling: %v", err)
	}
	testkit.NoError(t, db.Migrate(t.Context()))
	testkit.Equal(t, "the schema", server.SQL(t, address, shape), whole)
	if rows, got := server.SQL(t, address, "select n from captcha_days"), versions(t, server, address); rows != "5" ||
		got != allVersions {
		t.Errorf("the row of another table: %q, applied %q", rows, got)
	}
}

// The page about the claims lists all tables.
func TestDocsListAllTables(t *testing.T) {
	page, err := os.ReadFile("../../docs/history.md")
	testkit.NoError(t, err)
	for _, table := range append(slices.Clone(tables), "poold_schema") {
		if !strings.Contains(string(page), "`"+table+"`:") {
			t.Errorf("docs/history.md does not list %s", table)
		}
	}
}

func testMigrate(t *testing.T, server *postgrestest.Cluster) {
	t.Run("repeated, and by many at once", func(t *testing.T) {
		address := server.Database(t)
		var group sync.WaitGroup
		for range 6 {
			db, _ := open(t, address, postgrestest.Patience)
			group.Go(func() {
				for range 2 {
					testkit.ErrorIs(t, "migrating", db.Migrate(t.Context()), nil)
				}
			})
		}
		group.Wait()
		testkit.Equal(t, "applied", versions(t, server, address), allVersions)
	})

	t.Run("a newer schema", func(t *testing.T) {
		address := server.Database(t)
		old, _ := openMigrated(t, address, postgrestest.Patience)
		server.SQL(t, address, "insert into poold_schema (version_id, is_applied) values (99, true)")
		db, l := open(t, address, postgrestest.Patience)
		err := db.Migrate(t.Context())
		if !errors.Is(err, ErrNewer) || errors.Is(err, ErrDown) || !strings.Contains(err.Error(), "99") {
			t.Errorf("migrating: %v", err)
		}
		run(t, db)
		logs(t, l, "start a newer program")
		// During a rolling update, a running program of the earlier version keeps working.
		testkit.NoError(t, exec(t, old, reading))
		server.SQL(t, address, "delete from poold_schema where version_id = 99")
		logs(t, l, "postgres serves again")
	})

	t.Run("without the right to make tables", func(t *testing.T) {
		address := server.Database(t)
		server.SQL(t, address, "create role guest_test login password '"+postgrestest.Password+"'")
		guest := strings.Replace(address, "postgrestest:", "guest_test:", 1)
		db, _ := open(t, guest, postgrestest.Patience)
		if err := db.Migrate(t.Context()); !errors.Is(err, ErrDown) || !strings.Contains(err.Error(), "lacks a right") {
			t.Errorf("an empty database: %v", err)
		}
		openMigrated(t, address, postgrestest.Patience)
		server.SQL(t, address, "grant select on poold_schema to guest_test")
		testkit.NoError(t, db.Migrate(t.Context()))
	})

	t.Run("a server that comes up later", func(t *testing.T) {
		address := server.Database(t)
		server.Stop(t)
		defer server.Up(t)
		db, l := open(t, address, DefaultLimit)
		run(t, db)
		logs(t, l, "postgres does not serve")
		server.Up(t)
		logs(t, l, "postgres serves again")
		testkit.Equal(t, "applied", versions(t, server, address), allVersions)
	})
}
