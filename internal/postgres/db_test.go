package postgres

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"poold/internal/postgres/postgrestest"
	"poold/internal/testkit"
)

// An invalid address is refused, and no error quotes it.
func TestOpenQuotesNoAddress(t *testing.T) {
	for name, address := range map[string]string{
		"another scheme":    "mysql://postgrestest:" + postgrestest.Password + "@127.0.0.1/test_x",
		"no such file":      "postgres://postgrestest:" + postgrestest.Password + "@127.0.0.1/test_x?sslrootcert=/no-such",
		"a raw character":   "postgres://postgrestest:" + postgrestest.Password + "%zz@127.0.0.1/test_x",
		"a raw slash":       "postgres://postgrestest:x/" + postgrestest.Password + "@127.0.0.1/test_x",
		"a bad port":        "postgres://127.0.0.1:" + postgrestest.Password + "/test_x",
		"an unknown mode":   "postgres://postgrestest:" + postgrestest.Password + "@127.0.0.1/test_x?sslmode=no-such",
		"a bad pool option": "postgres://postgrestest:" + postgrestest.Password + "@127.0.0.1/test_x?pool_max_conns=no-such",
	} {
		t.Run(name, func(t *testing.T) {
			db, err := Open(address, DefaultLimit, nil)
			if err == nil {
				db.Close()
				t.Fatal("opened")
			}
			says := "postgres://"
			if name == "no such file" {
				says = "it names a file that cannot be read: open /no-such"
			} else {
				postgrestest.Hidden(t, "the error", err.Error())
			}
			if !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), postgrestest.Password) {
				t.Errorf("does not say %q: %v", says, err)
			}
		})
	}
}

// If the server cannot be used, each call fails within the limit with an ErrDown. The error gives the
// reason and contains no part of the address.
func testDown(t *testing.T, server *postgrestest.Cluster) {
	address := server.Database(t)
	for reason, address := range map[string]string{
		"refuses the user or the password": strings.Replace(address, postgrestest.Password, postgrestest.Password+"x", 1),
		"no such database":                 server.Address("no-such"),
		// known without asking a server
		"its host name is not known": strings.Replace(address, "127.0.0.1", "no-such..invalid", 1),
		"connection refused":         strings.Replace(address, "127.0.0.1", "127.0.0.3", 1),
	} {
		t.Run(reason, func(t *testing.T) {
			db, l := open(t, address, DefaultLimit)
			testkit.InASecond(t, func() { _ = db.Migrate(t.Context()) })
			run(t, db)
			logs(t, l, reason)
			err := exec(t, db, reading)
			if !errors.Is(err, ErrDown) || !strings.Contains(err.Error(), reason) {
				t.Errorf("calling: %v", err)
			}
			postgrestest.Hidden(t, "the error", err.Error())
			postgrestest.Hidden(t, "the log", l.String())
		})
	}
}

// After an outage the program uses the server again without a restart. The outages in this test: the
// server ends, is killed, does not respond. Run logs each change of the state once. No
// goroutine is left.
func testHeals(t *testing.T, server *postgrestest.Cluster) {
	address := server.Database(t)
	up := func() { server.Up(t) }
	for name, outage := range map[string]struct{ begins, ends func() }{
		"ended":  {func() { server.Stop(t) }, up},
		"killed": {func() { server.Kill(t) }, up},
		"silent": {server.Freeze, server.Thaw},
	} {
		t.Run(name, func(t *testing.T) {
			// The ignored goroutines belong to the server and end with the test.
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent(), goleak.IgnoreAnyFunction("os/exec.(*Cmd).Wait"),
				goleak.IgnoreAnyFunction("os/exec.(*Cmd).Start.func2"))
			db, l := openMigrated(t, address, DefaultLimit)
			stop := run(t, db)
			works(t, db, reading)
			outage.begins()
			logs(t, l, `"postgres does not serve"`)
			testkit.InASecond(t, func() {
				var group sync.WaitGroup
				for range 50 {
					group.Go(func() { testkit.ErrorIs(t, "calling", exec(t, db, reading), ErrDown) })
				}
				group.Wait()
			})
			outage.ends()
			works(t, db, reading)
			logs(t, l, `"postgres serves again"`)
			testkit.Equal(t, "lines about the two changes", strings.Count(l.String(), "\n"), 2)
			stop()
			db.Close()
		})
	}
}

// A pooler shares the server's connections between transactions, so no statement may stay prepared on
// a connection. The style of dates that a database prefers changes nothing.
func testSession(t *testing.T, server *postgrestest.Cluster) {
	address := server.Database(t)
	name := address[strings.LastIndex(address, "/")+1:]
	server.SQL(t, name, "alter database "+name+" set datestyle to 'German'")
	db, _ := openMigrated(t, address+"?default_query_exec_mode=cache_statement&statement_cache_capacity=100",
		postgrestest.Patience)
	var prepared int
	var now time.Time
	const sql = "select count(*) + $1::integer, clock_timestamp() from pg_prepared_statements where name <> ''"
	testkit.NoError(t, db.Do(t.Context(), func(ctx context.Context, tx Tx) error {
		for i := range 3 {
			if err := tx.First(ctx, []any{&prepared, &now}, sql, i-2); err != nil {
				return err
			}
		}
		return nil
	}))
	if prepared != 0 || time.Since(now).Abs() > time.Hour {
		t.Errorf("%d statements are prepared, it is %v", prepared, now)
	}
}

// Run logs once that it cannot clean, and tries again each second.
func testCleaning(t *testing.T, server *postgrestest.Cluster) {
	db, l := openMigrated(t, server.Database(t), postgrestest.Patience)
	var calls atomic.Int64
	clean := func(ctx context.Context) error {
		if calls.Add(1) < 4 {
			return noTable("captcha_history")
		}
		return ctx.Err()
	}
	testkit.Run(t, func(ctx context.Context) error { return db.Run(ctx, time.Millisecond, clean) })
	testkit.Within(t, postgrestest.Patience, "it cleans", func() bool { return calls.Load() > 4 })
	testkit.Equal(t, "lines that name the table", strings.Count(l.String(), "captcha_history does not exist"), 1)
	testkit.Equal(t, "lines about its return", l.Count("postgres serves again"), 1)
}
