package postgres

import (
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"

	"poold/internal/postgres/postgrestest"
	"poold/internal/testkit"
)

// all is the result of versions after each file was applied.
var all = func() string {
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
		if got := versions(t, server, address); got != all {
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
		old, _ := migrated(t, address, postgrestest.Patience)
		heard, _ := run(t, old)
		server.SQL(t, address, "insert into poold_schema values (99, now())")
		db, l := open(t, address, postgrestest.Patience)
		err := db.Migrate(t.Context())
		if !errors.Is(err, ErrNewer) || errors.Is(err, ErrDown) || !strings.Contains(err.Error(), "99") {
			t.Errorf("migrating: %v", err)
		}
		run(t, db)
		testkit.Within(t, postgrestest.Patience, "logged", func() bool { return strings.Contains(l.String(), "start a newer program") })
		if err := one(t.Context(), db); !errors.Is(err, ErrDown) || !strings.Contains(err.Error(), "newer") {
			t.Errorf("calling: %v", err)
		}
		// A running program of the former version goes on while its replicas are replaced.
		server.SQL(t, address, endOthers)
		testkit.Within(t, postgrestest.Patience, "heard by the old program", func() bool {
			server.SQL(t, address, "notify news, 'new'")
			return len(heard) > 0
		})
		if err := one(t.Context(), old); err != nil {
			t.Errorf("calling by the old program: %v", err)
		}
		server.SQL(t, address, "delete from poold_schema where version = 99")
		testkit.Within(t, postgrestest.Patience, "healed", func() bool { return one(t.Context(), db) == nil })
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
		migrated(t, address, postgrestest.Patience)
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
		run(t, db)
		server.Up(t)
		testkit.Within(t, postgrestest.Patience, "used", func() bool { return one(t.Context(), db) == nil })
		if got := versions(t, server, address); got != all {
			t.Errorf("applied %q", got)
		}
	})
}
