package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
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
		"empty":             "",
		"another scheme":    "mysql://postgrestest:" + postgrestest.Password + "@127.0.0.1/test_x",
		"a list of words":   "host=127.0.0.1 user=postgrestest password=" + postgrestest.Password,
		"a raw character":   "postgres://postgrestest:" + postgrestest.Password + "%zz@127.0.0.1/test_x",
		"a raw slash":       "postgres://postgrestest:x/" + postgrestest.Password + "@127.0.0.1/test_x",
		"a bad port":        "postgres://127.0.0.1:" + postgrestest.Password + "/test_x",
		"an unknown mode":   "postgres://postgrestest:" + postgrestest.Password + "@127.0.0.1/test_x?sslmode=no-such",
		"a bad pool option": "postgres://postgrestest:" + postgrestest.Password + "@127.0.0.1/test_x?pool_max_conns=no-such",
	} {
		t.Run(name, func(t *testing.T) {
			db, err := Open(address, Options{})
			if err == nil {
				db.Close()
				t.Fatal("opened")
			}
			postgrestest.Hidden(t, "the error", err.Error())
			if !strings.Contains(err.Error(), "postgres://") {
				t.Errorf("does not say what an address looks like: %v", err)
			}
		})
	}
}

func TestOpenNamesAnUnreadableCertificate(t *testing.T) {
	address := "postgres://user:hidden@127.0.0.1/test_x?sslrootcert=/none.pem"
	_, err := Open(address, Options{})
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "open /none.pem") || strings.Contains(err.Error(), "hidden") {
		t.Error(err)
	}
}

// If the server cannot be used, each call fails within the limit with an ErrDown. The error gives the
// reason and contains no part of the address. Run logs each change of the server's state once.
func testDown(t *testing.T, server *postgrestest.Server) {
	address := server.Database(t)
	frozen := func() { server.Freeze() }
	for _, c := range []struct {
		name, address, reason string
		before, after         func()
	}{
		{"a wrong password", strings.Replace(address, postgrestest.Password, postgrestest.Password+"x", 1), "refuses the user or the password", nil, nil},
		{"no such database", server.Address("no-such"), "no such database", nil, nil},
		{"no such host", strings.Replace(address, "127.0.0.1", "no-such.invalid", 1), "postgres does not serve", nil, nil},
		{"silence", address, "no answer in time", frozen, server.Thaw},
		{"nobody there", address, "connection refused", func() { server.Stop(t) }, func() { server.Up(t) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			db, l := open(t, c.address, 0)
			if c.before != nil {
				c.before()
				defer c.after()
			}
			var err error
			testkit.InASecond(t, func() { err = db.Migrate(t.Context()) })
			if !errors.Is(err, ErrDown) || !strings.Contains(err.Error(), c.reason) {
				t.Errorf("migrating: %v", err)
			}
			runNews(t, db)
			testkit.Within(t, postgrestest.Patience, "logged", func() bool { return strings.Contains(l.String(), c.reason) })
			if err := selectOne(t.Context(), db); !errors.Is(err, ErrDown) || !strings.Contains(err.Error(), c.reason) {
				t.Errorf("calling: %v", err)
			}
			time.Sleep(2 * time.Second) // Run tries again meanwhile
			n := 0
			for line := range strings.Lines(l.String()) {
				if strings.Contains(line, c.reason) { // on a busy machine the reason may also be a timeout
					n++
				}
			}
			if n != 1 {
				t.Errorf("logged %d times:\n%s", n, l.String())
			}
			postgrestest.Hidden(t, "the error", err.Error())
			postgrestest.Hidden(t, "the log", l.String())
		})
	}
}

// After an outage the program uses the server again without a restart. The outages in this test: the
// server ends, the server does not respond, the network delivers nothing. No goroutine is left.
func testHeals(t *testing.T, server *postgrestest.Server) {
	thief, through := postgrestest.Through(t, server.Database(t))
	ways := server.Outages(t)
	// Requests on the old connections never reach the server.
	ways["lost on the way"] = postgrestest.Outage{Begin: func() { thief.Silence(true) }, End: func() { thief.Silence(false) }}
	for name, c := range ways {
		t.Run(name, func(t *testing.T) {
			// The ignored goroutines belong to the server and end with the test.
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent(), goleak.IgnoreAnyFunction("os/exec.(*Cmd).Wait"),
				goleak.IgnoreAnyFunction("os/exec.(*Cmd).Start.func2"))
			db, l := openMigrated(t, through, 0)
			_, stop := runNews(t, db)
			testkit.Within(t, postgrestest.Patience, "the first call", func() bool { return selectOne(t.Context(), db) == nil })
			c.Begin()
			testkit.Within(t, postgrestest.Patience, "logged", func() bool { return strings.Contains(l.String(), `"postgres does not serve"`) })
			testkit.InASecond(t, func() {
				var group sync.WaitGroup
				for range 50 {
					group.Go(func() {
						if err := selectOne(t.Context(), db); !errors.Is(err, ErrDown) {
							t.Errorf("calling: %v", err)
						}
					})
				}
				group.Wait()
			})
			c.End()
			began := time.Now()
			testkit.Within(t, postgrestest.Patience, "healed", func() bool { return selectOne(t.Context(), db) == nil })
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("healed after %v", took)
			}
			testkit.Within(t, postgrestest.Patience, "logged", func() bool { return strings.Contains(l.String(), `"postgres serves again"`) })
			if n := strings.Count(l.String(), "\n"); n != 2 {
				t.Errorf("logged more than the two changes:\n%s", l.String())
			}
			stop()
			db.Close()
		})
	}
}

// After a connection breaks, Run connects again immediately, even after many breaks: each recovery
// resets the pause to the shortest one.
func testReconnectsSoon(t *testing.T, server *postgrestest.Server) {
	address := server.Database(t)
	db, _ := openMigrated(t, address, postgrestest.Patience)
	other, _ := openMigrated(t, address, postgrestest.Patience)
	heard, _ := runNews(t, db)
	do := func(work func(context.Context, Tx) error) {
		t.Helper()
		if err := other.Do(t.Context(), work); err != nil {
			t.Fatal(err)
		}
	}
	listens := func(payload string) {
		t.Helper()
		for began := time.Now(); time.Since(began) < postgrestest.Patience; {
			do(func(ctx context.Context, tx Tx) error { return tx.Notify(ctx, "news", payload) })
			select {
			case got := <-heard:
				if got == payload {
					return
				}
			case <-time.After(10 * time.Millisecond):
			}
		}
		t.Fatal("Run does not listen")
	}
	listens("first")
	soonest := time.Hour
	for n := range 12 { // if the pauses kept growing, each of the last six would be about a second
		do(func(ctx context.Context, tx Tx) error {
			_, err := tx.Exec(ctx, endOthers)
			return err
		})
		began := time.Now()
		if listens(fmt.Sprint(n)); n >= 6 {
			soonest = min(soonest, time.Since(began))
		}
	}
	if soonest > 450*time.Millisecond {
		t.Errorf("Run listened again after %v at the soonest", soonest)
	}
}

// A restart of the server breaks all connections, but no call fails.
func testCallsOutliveARestart(t *testing.T, server *postgrestest.Server) {
	db, _ := openMigrated(t, server.Database(t), postgrestest.Patience)
	all := func() {
		t.Helper()
		var group sync.WaitGroup
		for range 20 {
			group.Go(func() {
				if err := selectOne(t.Context(), db); err != nil {
					t.Errorf("calling: %v", err)
				}
			})
		}
		group.Wait()
	}
	all() // opens all connections
	for range 3 {
		server.Restart(t)
		for range 8 {
			if err := selectOne(t.Context(), db); err != nil {
				t.Errorf("calling: %v", err)
			}
		}
		all()
	}
}

// Concurrent calls use at most four connections, including the connection that listens.
func testFourConnections(t *testing.T, server *postgrestest.Server) {
	address := server.Database(t)
	db, _ := openMigrated(t, address+"?pool_max_conns=50", postgrestest.Patience)
	runNews(t, db)
	var most atomic.Int32
	var group sync.WaitGroup
	for range 200 {
		group.Go(func() {
			err := db.Do(t.Context(), func(ctx context.Context, tx Tx) error {
				var n int
				if err := tx.First(ctx, []any{&n}, `select count(*) from pg_stat_activity, pg_sleep(0.02)
					where backend_type = 'client backend' and datname = current_database()`); err != nil {
					return err
				}
				for old := most.Load(); int32(n) > old && !most.CompareAndSwap(old, int32(n)); old = most.Load() {
				}
				return nil
			})
			if err != nil {
				t.Errorf("calling: %v", err)
			}
		})
	}
	group.Wait()
	if n := most.Load(); n < 3 || n > 4 {
		t.Errorf("%d connections", n)
	}
	if n := server.Connections(t, address); n > 4 {
		t.Errorf("%d connections", n)
	}
}

// A pooler shares the server's connections between transactions, so no statement may stay prepared on
// a connection.
func testNothingIsPrepared(t *testing.T, server *postgrestest.Server) {
	address, err := url.Parse(server.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	address.RawQuery = "default_query_exec_mode=cache_statement&statement_cache_capacity=100"
	db, _ := openMigrated(t, address.String(), postgrestest.Patience)
	var prepared int
	if err := db.Do(t.Context(), func(ctx context.Context, tx Tx) error {
		for i := range 3 {
			if err := tx.First(ctx, []any{&prepared}, "select count(*) + $1::integer from pg_prepared_statements where name <> ''", i-2); err != nil {
				return err
			}
		}
		return nil
	}); err != nil || prepared != 0 {
		t.Errorf("%d statements are prepared, %v", prepared, err)
	}
}
