package postgres

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"poold/internal/postgres/postgrestest"
)

// shape lists the columns and indexes of the schema with their types and defaults.
const shape = `select table_name, column_name, data_type, is_nullable, column_default, collation_name
	from information_schema.columns where table_schema = 'public' order by table_name, column_name;
	select indexdef from pg_indexes where schemaname = 'public' order by 1`

// If a table was dropped, each call that needs it fails with the name of the table and the remedy.
// Migrate recreates the table unchanged. The rows of other tables stay.
func testDroppedTable(t *testing.T, server *postgrestest.Server) {
	address := server.Database(t)
	db, _ := openMigrated(t, address, postgrestest.Patience)
	whole := server.SQL(t, address, shape)
	server.SQL(t, address, "insert into captcha_figures values ('2026-01-02', 'login', 'qa', 'turnstile', 1, 2, 3, 4, 5, 6, 7)")
	tables := strings.Fields(server.SQL(t, address, "select tablename from pg_tables where schemaname = 'public' and tablename not in ('poold_schema', 'captcha_figures')"))
	if len(tables) < 5 {
		t.Fatalf("tables: %q", tables)
	}
	for _, table := range tables {
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
}

// Migrate recreates a dropped table of an earlier version before it applies the next step, because
// this step may change the table.
func testDroppedTableOfAnEarlierVersion(t *testing.T, server *postgrestest.Server) {
	address := server.Database(t)
	db, _ := open(t, address, postgrestest.Patience)
	conn, err := db.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	made := []step{{"1", "create table parts (n integer); -- ; and more\n create index parts_n on parts (n);"}}
	if err := db.migrate(t.Context(), conn, made); err != nil {
		t.Fatal(err)
	}
	server.SQL(t, address, "drop table parts")
	made = append(made, step{"2", "alter table parts add column m integer;"})
	if err := db.migrate(t.Context(), conn, made); err != nil {
		t.Errorf("migrating: %v", err)
	}
	if got := server.SQL(t, address, "insert into parts values (1, 2); select n, m from parts"); got != "1|2" {
		t.Errorf("the table: %q", got)
	}
}

// Each statement of the released files names its table, so that Migrate can recreate a dropped table.
func TestStatementsNameTheirTables(t *testing.T) {
	for _, step := range steps() {
		if len(step.statements()) == 0 {
			t.Errorf("%s has no statements", step.name)
		}
		for _, s := range step.statements() {
			if s.table == "" {
				t.Errorf("%s: no table in %q", step.name, s.sql)
			}
		}
	}
}

// The page about the claims lists all tables.
func TestDocsListAllTables(t *testing.T) {
	page, err := os.ReadFile("../../docs/solve.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range append(tables(steps()), "poold_schema") {
		if !strings.Contains(string(page), "| `"+table+"` |") {
			t.Errorf("docs/solve.md does not list %s", table)
		}
	}
}
