package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"

	"poold/internal/postgres/postgrestest"
	"poold/internal/testkit"
)

// scratch returns a migrated database with a table of numbers.
func scratch(t *testing.T, server *postgrestest.Cluster) (db *DB, address string) {
	t.Helper()
	address = server.Database(t)
	server.SQL(t, address, "create table numbers (n integer primary key)")
	db, _ = openMigrated(t, address, postgrestest.Patience)
	return db, address
}

func testTransactions(t *testing.T, server *postgrestest.Cluster) {
	t.Run("an error of the work undoes it and comes back", func(t *testing.T) {
		db, address := scratch(t, server)
		mine := errors.New("mine")
		err := db.Do(t.Context(), func(ctx context.Context, tx Tx) error {
			if n, err := tx.Exec(ctx, "insert into numbers values ($1), ($2)", 1, 2); err != nil || n != 2 {
				t.Errorf("%d rows, %v", n, err)
			}
			return mine
		})
		testkit.ErrorIs(t, "told", err, mine)
		testkit.Equal(t, "rows", server.SQL(t, address, "select count(*) from numbers"), "0")
	})

	t.Run("a fault of a statement is no ErrDown and quotes nothing", func(t *testing.T) {
		db, _ := scratch(t, server)
		for statement, code := range map[string]string{
			"select 1 from test_missing":               "42P01",
			"select 'postgrestest'::integer":           "22P02",
			"insert into numbers values (1), (1)":      "23505",
			"this is no-such statement":                "42601",
			"select * from numbers where n = 'test_x'": "22P02",
		} {
			err := exec(t, db, statement)
			if err == nil || errors.Is(err, ErrDown) || !strings.Contains(err.Error(), code) {
				t.Errorf("%s: %v, want %s", statement, err, code)
				continue
			}
			postgrestest.Hidden(t, "the error", err.Error())
		}
	})

	t.Run("a call is repeated if an error may be gone at once", func(t *testing.T) {
		db, _ := scratch(t, server)
		for code, runs := range map[string]int{
			"40001": 2, "40P01": 2, "53300": 2, "08006": 2, // codes of conflicts between transactions and of broken connections
			"42501": 1, "53100": 1, "57014": 1, "XX000": 1, "23505": 1,
		} {
			n := 0
			err := db.Do(t.Context(), func(ctx context.Context, tx Tx) error {
				if n++; n > 1 {
					return nil
				}
				_, err := tx.Exec(ctx, "do $$ begin raise exception using errcode = '"+code+"'; end $$")
				return err
			})
			if n != runs || (err == nil) != (runs > 1) {
				t.Errorf("%s: ran %d times, want %d: %v", code, n, runs, err)
			}
			if err != nil && errors.Is(err, ErrDown) != (code != "23505") {
				t.Errorf("%s: %v", code, err)
			}
		}
	})
}
