package postgres

import (
	"context"
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
const allVersions = "1 2 3"

// versions returns the applied versions in the database.
func versions(t *testing.T, server *postgrestest.Server, address string) string {
	t.Helper()
	return strings.ReplaceAll(server.SQL(t, address, "select version_id from poold_schema where version_id > 0 order by id"), "\n", " ")
}

// shape lists the columns and indexes of the schema with their types and defaults.
const shape = `select table_name, column_name, data_type, is_nullable, column_default, collation_name
	from information_schema.columns where table_schema = 'public' order by table_name, column_name;
	select indexdef from pg_indexes where schemaname = 'public' order by 1`

// If a table was dropped, each call that needs it fails with the name of the table and the remedy.
// Migrate makes the table again. The rows of other tables stay.
func testDroppedTable(t *testing.T, server *postgrestest.Server) {
	address := server.Database(t)
	db, _ := openMigrated(t, address, postgrestest.Patience)
	whole := server.SQL(t, address, shape)
	server.SQL(t, address, "insert into captcha_figures values ('2026-01-02', 'login', 'qa', 'turnstile', 1, 2, 3, 4, 5, 6, 7, 8)")
	for _, table := range tables {
		if table == "captcha_figures" {
			continue
		}
		server.SQL(t, address, "drop table "+table)
		err := db.Do(t.Context(), func(ctx context.Context, tx Tx) error {
			_, err := tx.Exec(ctx, "delete from "+table)
			return err
		})
		if !errors.Is(err, ErrDown) || !strings.Contains(err.Error(), "the table "+table+" does not exist: poold history init makes it") {
			t.Errorf("calling without %s: %v", table, err)
		}
		if err := db.Migrate(t.Context()); err != nil {
			t.Errorf("migrating without %s: %v", table, err)
		}
		if got := server.SQL(t, address, shape); got != whole {
			t.Errorf("without %s it becomes\n%s\nwant\n%s", table, got, whole)
		}
	}
	if got := versions(t, server, address); got != allVersions {
		t.Errorf("applied %q", got)
	}
	if got := server.SQL(t, address, "select lost from captcha_figures"); got != "5" {
		t.Errorf("the row of another table: %q", got)
	}
	made := strings.Fields(server.SQL(t, address, "select tablename from pg_tables where schemaname = 'public' order by 1"))
	if want := append(slices.Clone(tables), "poold_schema"); !slices.Equal(made, want) {
		t.Errorf("the files make %q, want %q", made, want)
	}
}

// The page about the claims lists all tables.
func TestDocsListAllTables(t *testing.T) {
	page, err := os.ReadFile("../../docs/solve.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range append(slices.Clone(tables), "poold_schema") {
		if !strings.Contains(string(page), "| `"+table+"` |") {
			t.Errorf("docs/solve.md does not list %s", table)
		}
	}
}

// When the reply to one statement is lost, Try returns an error, Run connects again, and Alone runs
// the function work once.
func testLostAnswers(t *testing.T, server *postgrestest.Server) {
	thief, through := postgrestest.Through(t, server.Database(t))
	db, l := openMigrated(t, through, postgrestest.Patience)
	thief.Steal("server_version")
	if _, err := db.Try(t.Context()); !errors.Is(err, ErrDown) || !strings.Contains(err.Error(), "the connection broke") {
		t.Errorf("trying: %v", err)
	}
	thief.Steal("pg_try_advisory_xact_lock")
	runs := 0
	if err := db.Alone(t.Context(), "key", func(context.Context, Tx) error { runs++; return nil }); err != nil || runs != 1 {
		t.Errorf("alone: ran %d times, %v", runs, err)
	}
	thief.Steal("listen ")
	heard, _ := runNews(t, db)
	testkit.Within(t, postgrestest.Patience, "heard", func() bool {
		_ = db.Do(t.Context(), func(ctx context.Context, tx Tx) error { return tx.Notify(ctx, "news", "new") })
		return len(heard) > 0
	})
	if thief.Stolen() != 3 || l.Count("postgres does not serve") != 1 || l.Count("postgres serves again") != 1 {
		t.Errorf("%d answers are lost, log:\n%s", thief.Stolen(), l.String())
	}
}

func testMigrate(t *testing.T, server *postgrestest.Server) {
	t.Run("repeated, and by many at once", func(t *testing.T) {
		address := server.Database(t)
		var group sync.WaitGroup
		for range 6 {
			db, _ := open(t, address, postgrestest.Patience)
			group.Go(func() {
				for range 2 {
					if err := db.Migrate(t.Context()); err != nil {
						t.Errorf("migrating: %v", err)
					}
				}
			})
		}
		group.Wait()
		if got := versions(t, server, address); got != allVersions {
			t.Errorf("applied %q", got)
		}
	})

	t.Run("a lost answer", func(t *testing.T) {
		address := server.Database(t)
		thief, through := postgrestest.Through(t, address)
		db, _ := open(t, through, postgrestest.Patience)
		thief.Steal("create table if not exists captcha_audit")
		if err := db.Migrate(t.Context()); !errors.Is(err, ErrDown) || thief.Stolen() != 1 {
			t.Errorf("migrating: %v after %d lost answers", err, thief.Stolen())
		}
		if err := db.Migrate(t.Context()); err != nil {
			t.Errorf("migrating again: %v", err)
		}
		if got := versions(t, server, address); got != allVersions {
			t.Errorf("applied %q", got)
		}
	})

	t.Run("a newer schema", func(t *testing.T) {
		address := server.Database(t)
		old, _ := openMigrated(t, address, postgrestest.Patience)
		heard, _ := runNews(t, old)
		server.SQL(t, address, "insert into poold_schema (version_id, is_applied) values (99, true)")
		db, l := open(t, address, postgrestest.Patience)
		err := db.Migrate(t.Context())
		if !errors.Is(err, ErrNewer) || errors.Is(err, ErrDown) || !strings.Contains(err.Error(), "99") {
			t.Errorf("migrating: %v", err)
		}
		runNews(t, db)
		testkit.Within(t, postgrestest.Patience, "logged", func() bool { return strings.Contains(l.String(), "start a newer program") })
		if err := selectOne(t.Context(), db); !errors.Is(err, ErrDown) || !strings.Contains(err.Error(), "newer") {
			t.Errorf("calling: %v", err)
		}
		// During a rolling update, a running program of the earlier version keeps working.
		server.SQL(t, address, endOthers)
		testkit.Within(t, postgrestest.Patience, "heard by the old program", func() bool {
			server.SQL(t, address, "notify news, 'new'")
			return len(heard) > 0
		})
		if err := selectOne(t.Context(), old); err != nil {
			t.Errorf("calling by the old program: %v", err)
		}
		server.SQL(t, address, "delete from poold_schema where version_id = 99")
		testkit.Within(t, postgrestest.Patience, "healed", func() bool { return selectOne(t.Context(), db) == nil })
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
		if err := db.Migrate(t.Context()); err != nil {
			t.Errorf("a database that is made: %v", err)
		}
	})

	t.Run("a server that comes up later", func(t *testing.T) {
		address := server.Database(t)
		server.Stop(t)
		defer server.Up(t)
		db, _ := open(t, address, 0)
		if err := db.Migrate(t.Context()); !errors.Is(err, ErrDown) {
			t.Errorf("migrating: %v", err)
		}
		runNews(t, db)
		server.Up(t)
		testkit.Within(t, postgrestest.Patience, "used", func() bool { return selectOne(t.Context(), db) == nil })
		if got := versions(t, server, address); got != allVersions {
			t.Errorf("applied %q", got)
		}
	})
}
