package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"poold/internal/postgres/postgrestest"
	"poold/internal/testkit"
)

// allVersions is the result of the function versions after Migrate has applied all files.
var allVersions = func() string {
	var numbers []string
	for i := range steps() {
		numbers = append(numbers, strconv.Itoa(i+1))
	}
	return strings.Join(numbers, " ")
}()

// versions returns the applied versions in the database.
func versions(t *testing.T, server *postgrestest.Server, address string) string {
	t.Helper()
	return strings.ReplaceAll(server.SQL(t, address, "select version from poold_schema where applied_at <= now() order by version"), "\n", " ")
}

// The files are numbered from 1 without a gap.
func TestFilesAreNumberedInOrder(t *testing.T) {
	for i, s := range steps() {
		if prefix := fmt.Sprintf("sql/%04d_", i+1); !strings.HasPrefix(s.name, prefix) {
			t.Errorf("file %d is %s, not %s…", i+1, s.name, prefix)
		}
	}
}

// failing wraps a database so that the n-th statement of its transactions fails with an
// error.
type failing struct {
	beginner
	n   *int
	err error
}

func (f failing) BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error) {
	tx, err := f.beginner.BeginTx(ctx, o)
	return failingTx{tx, f}, err
}

type failingTx struct {
	pgx.Tx
	f failing
}

func (x failingTx) fault() error {
	if *x.f.n--; *x.f.n == 0 {
		return x.f.err
	}
	return nil
}

func (x failingTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if err := x.fault(); err != nil {
		return pgconn.CommandTag{}, err
	}
	return x.Tx.Exec(ctx, sql, args...)
}

func (x failingTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if err := x.fault(); err != nil {
		return failingRow{err: err}, err
	}
	return x.Tx.Query(ctx, sql, args...)
}

func (x failingTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if err := x.fault(); err != nil {
		return failingRow{err: err}
	}
	return x.Tx.QueryRow(ctx, sql, args...)
}

// failingRow is a row or a list of rows that returns an error.
type failingRow struct {
	pgx.Rows
	err error
}

func (r failingRow) Scan(...any) error { return r.err }
func (r failingRow) Err() error        { return r.err }
func (failingRow) Next() bool          { return false }
func (failingRow) Close()              {}

// After a statement of a migration fails, the schema is unchanged. If the failed statement comes
// after the last step, the schema is complete. The error is a fault, and the next migration succeeds.
func testMigrationFails(t *testing.T, server *postgrestest.Server) {
	made := server.Database(t)
	openMigrated(t, made, postgrestest.Patience)
	whole := server.SQL(t, made, shape)
	for want, fault := range map[error]error{ErrDown: io.ErrUnexpectedEOF, context.Canceled: context.Canceled} {
		address := server.Database(t)
		migrateTo(t, address, len(steps())-1)
		server.SQL(t, address, "drop table captcha_audit") // an earlier step created this table
		before := server.SQL(t, address, shape)
		db, _ := open(t, address, postgrestest.Patience)
		conn, err := db.connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Release()
		n := 1
		for ; n < 100; n++ {
			left := n
			err := db.migrate(t.Context(), failing{conn, &left, fault}, db.steps())
			if left > 0 { // the migration has fewer than n statements
				if err != nil {
					t.Errorf("migrating without a fault: %v", err)
				}
				break
			}
			if !errors.Is(err, want) {
				t.Errorf("statement %d failed with %v: %v", n, fault, err)
			}
			if got := server.SQL(t, address, shape); got != before && got != whole {
				t.Errorf("statement %d failed with %v, and the schema is in part\n%s", n, fault, got)
			}
		}
		if got := versions(t, server, address); got != allVersions || n < 10 {
			t.Errorf("applied %q after %d faults", got, n-1)
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

	t.Run("in order, and each step on its own", func(t *testing.T) {
		address := server.Database(t)
		db, _ := open(t, address, postgrestest.Patience)
		conn, err := db.connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Release()
		all := []step{
			{"1", "create table steps (n integer); insert into steps values (1);"},
			{"2", "insert into steps select max(n) + 1 from steps;"},
			{"3", "insert into steps values (3); insert into test_missing values (1);"},
		}
		if err := db.migrate(t.Context(), conn, all); err == nil || !strings.Contains(err.Error(), "3: SQLSTATE 42P01") {
			t.Errorf("a bad step: %v", err)
		}
		if got := versions(t, server, address); got != "1 2" {
			t.Errorf("applied %q", got)
		}
		all[2].sql = "insert into steps select max(n) + 1 from steps;"
		if err := db.migrate(t.Context(), conn, all); err != nil {
			t.Errorf("mended: %v", err)
		}
		if got := server.SQL(t, address, "select array_agg(n) from steps"); got != "{1,2,3}" {
			t.Errorf("steps: %s", got)
		}
	})

	t.Run("a newer schema", func(t *testing.T) {
		address := server.Database(t)
		old, _ := openMigrated(t, address, postgrestest.Patience)
		heard, _ := runNews(t, old)
		server.SQL(t, address, "insert into poold_schema values (99, now())")
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
		server.SQL(t, address, "delete from poold_schema where version = 99")
		testkit.Within(t, postgrestest.Patience, "healed", func() bool { return selectOne(t.Context(), db) == nil })
	})

	t.Run("the prefix of an installation", func(t *testing.T) {
		address := server.Database(t)
		db, err := Open(address, Options{Prefix: "it's"})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if err := db.Migrate(t.Context()); err != nil {
			t.Errorf("migrating: %v", err)
		}
		if got := server.SQL(t, address, `insert into captcha_savings (day, source, requests) values ('2026-01-02', 'pool', 1);
			select prefix from captcha_savings`); got != "it's" {
			t.Errorf("the prefix of an old row is %q", got)
		}
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
