//go:build !race

package pgclaims

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/ondemand/dedup"
	"poold/internal/postgres"
	"poold/internal/postgres/postgrestest"
	"poold/internal/redisdb"
)

// key names the claim of a story.
const key = captcha.ID("0123456789abcdef")

// asking is an entry for key; solve is "" for who comes new.
func asking(solve string) dedup.ClaimEntry {
	return dedup.ClaimEntry{Key: key, Solve: solve, Identity: "identity", Sitekey: "sitekey", Pageurl: "https://example.com/login", Callers: 1}
}

// must is Enter that may not fail.
func must(t *testing.T, c *replica, solve string, state dedup.ClaimState) dedup.Claim {
	t.Helper()
	got, err := c.Enter(t.Context(), asking(solve))
	if err != nil || got.State != state {
		t.Fatalf("entering: %+v, %v, want %s", got, err, state)
	}
	return got
}

// all calls each method and returns the errors.
func all(t *testing.T, c *replica) []error {
	t.Helper()
	_, entered := c.Enter(t.Context(), asking(""))
	_, _, held := c.Hold(t.Context(), key, 1, "identity")
	letGo := c.LetGo(t.Context(), key, 1, "identity")
	_, ended := c.End(t.Context(), key, 1, dedup.ClaimEnd{})
	counted := c.Count(t.Context(), map[dedup.SavingsSource]int{dedup.SavedPool: 1})
	_, read := c.Days(t.Context())
	return []error{entered, held, letGo, ended, counted, read}
}

// A claim outlives restarts of the server between any two of its steps, on two replicas
// that were connected before.
func testAClaimOutlivesRestarts(t *testing.T, server *postgrestest.Server) {
	address := server.Database(t)
	long := dedup.ClaimTimes{Lease: time.Minute, Wanted: time.Minute}
	one, two := running(t, address, patient, long), running(t, address, patient, long)
	held := must(t, one, "", dedup.ClaimHeld)
	server.Restart(t)
	must(t, two, "", dedup.ClaimSolving)
	server.Restart(t)
	if mine, wanted, err := one.Hold(t.Context(), key, held.Fence, "another"); err != nil || !mine || !wanted {
		t.Fatalf("holding = %v, %v, %v", mine, wanted, err)
	}
	server.Restart(t)
	if ok, err := one.End(t.Context(), key, held.Fence, dedup.ClaimEnd{Value: []byte("token"), Lasts: time.Minute}); err != nil || !ok {
		t.Fatalf("ending = %v, %v", ok, err)
	}
	server.Restart(t)
	if got := must(t, two, held.Solve, dedup.ClaimShared); string(got.Value) != "token" || got.Identity != "another" {
		t.Errorf("shared: %+v", got)
	}
	// Who looks at the table finds what it is about.
	row := server.SQL(t, address, `select sitekey, pageurl, convert_from(solution, 'UTF8'), created_at between now() - interval '5 minutes' and now() from captcha_cache`)
	if row != "sitekey|https://example.com/login|token|t" {
		t.Errorf("the row is %s", row)
	}
}

// An answer that was lost changes nothing: who began a solve or took it over holds it,
// and who ended it has ended it.
func testAnAnswerIsLost(t *testing.T, server *postgrestest.Server) {
	address := server.Database(t)
	thief, through := postgrestest.Through(t, address)
	times := dedup.ClaimTimes{Lease: 3 * time.Second}
	one, two := running(t, through, patient, times), running(t, through, patient, times)
	steal := func(what string, call func()) {
		t.Helper()
		before := thief.Stolen()
		thief.Steal("commit\x00")
		call()
		if thief.Stolen() != before+1 {
			t.Errorf("%s: no answer was stolen", what)
		}
	}
	// What has ended is deleted in transactions too, so the thief may strike at one of those.
	var first, second dedup.Claim
	steal("begin", func() { first = must(t, one, "", dedup.ClaimHeld) })
	time.Sleep(times.Lease)
	steal("take over", func() { second = must(t, two, first.Solve, dedup.ClaimHeld) })
	if second.Solve != first.Solve || second.Fence <= first.Fence {
		t.Errorf("taken over: %+v from %+v", second, first)
	}
	steal("end", func() {
		if ok, err := two.End(t.Context(), key, second.Fence, dedup.ClaimEnd{Value: []byte("token"), Lasts: time.Minute}); err != nil || !ok {
			t.Errorf("ending = %v, %v", ok, err)
		}
	})
	must(t, one, first.Solve, dedup.ClaimShared)
}

// While the server is away each call fails within a second with redisdb.ErrDown, and no
// error and no log line holds a part of the address. Once it is back all goes on.
func testAway(t *testing.T, server *postgrestest.Server) {
	address := server.Database(t)
	c := running(t, address, 0, dedup.ClaimTimes{})
	must(t, c, "", dedup.ClaimHeld)
	for name, story := range map[string]struct{ away, back func() }{
		"ended":  {func() { server.Kill(t) }, func() { server.Up(t) }},
		"silent": {server.Freeze, server.Thaw},
	} {
		t.Run(name, func(t *testing.T) {
			story.away()
			began := time.Now()
			errs := all(t, c)
			if took := time.Since(began); took > time.Duration(len(errs))*time.Second {
				t.Errorf("%d calls took %v", len(errs), took)
			}
			for i, err := range errs {
				if !errors.Is(err, redisdb.ErrDown) || !errors.Is(err, postgres.ErrDown) {
					t.Errorf("call %d: %v", i, err)
					continue
				}
				quiet(t, err.Error())
			}
			story.back()
			for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
				if errs = all(t, c); slices.Equal(errs, make([]error, len(errs))) {
					break
				}
				if time.Since(began) > patient {
					t.Fatalf("does not heal: %v", errs)
				}
			}
		})
	}
	quiet(t, c.logs.String())
}

// quiet checks that a text says nothing of the address.
func quiet(t *testing.T, text string) {
	t.Helper()
	for _, secret := range []string{postgrestest.Password, "postgrestest", "127.0.0.1", "test_"} {
		if strings.Contains(text, secret) {
			t.Errorf("says %q: %s", secret, text)
		}
	}
}

// On a schema of a newer program every call is a redisdb.ErrDown that says why.
func testNewerSchema(t *testing.T, server *postgrestest.Server) {
	address := server.Database(t)
	running(t, address, patient, dedup.ClaimTimes{})
	server.SQL(t, address, "insert into poold_schema values (1000, now())")
	for i, err := range all(t, running(t, address, patient, dedup.ClaimTimes{})) {
		if !errors.Is(err, redisdb.ErrDown) || !strings.Contains(err.Error(), "newer than this program") {
			t.Errorf("call %d: %v", i, err)
		}
	}
}

// 200 who wait for one solve, and who solves, use four connections at most.
func testFourConnections(t *testing.T, server *postgrestest.Server) {
	address := server.Database(t)
	c := running(t, address, patient, dedup.ClaimTimes{Lease: time.Minute})
	held := must(t, c, "", dedup.ClaimHeld)
	var group sync.WaitGroup
	for range 200 {
		group.Go(func() {
			for {
				got, err := c.Enter(t.Context(), asking(held.Solve))
				if err != nil || got.State != dedup.ClaimSolving && got.State != dedup.ClaimShared {
					t.Errorf("waiting: %+v, %v", got, err)
					return
				}
				if got.State == dedup.ClaimShared {
					return
				}
				time.Sleep(500 * time.Millisecond)
			}
		})
	}
	most := 0
	for began := time.Now(); time.Since(began) < time.Second; time.Sleep(50 * time.Millisecond) {
		most = max(most, server.Connections(t, address))
	}
	if most < 2 || most > 4 {
		t.Errorf("%d connections", most)
	}
	if ok, err := c.End(t.Context(), key, held.Fence, dedup.ClaimEnd{Value: []byte("token"), Lasts: time.Minute}); err != nil || !ok {
		t.Errorf("ending = %v, %v", ok, err)
	}
	group.Wait()
}

// Days that are over are deleted, and the last seven are not.
func testOldDays(t *testing.T, server *postgrestest.Server) {
	address := server.Database(t)
	c := running(t, address, patient, dedup.ClaimTimes{})
	server.SQL(t, address, `insert into captcha_savings select (now() at time zone 'UTC')::date - ago, 'pool', ago from generate_series(1, 10) ago`)
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		left := server.SQL(t, address, "select string_agg(requests::text, ' ' order by requests) from captcha_savings")
		if left == "1 2 3 4 5 6" {
			break
		}
		if time.Since(began) > patient {
			t.Fatalf("left are the days %s ago", left)
		}
	}
	days, err := c.Days(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, day := range days {
		if day.BySource[dedup.SavedPool] != int64(i) {
			t.Errorf("%d days ago: %+v", i, day)
		}
	}
}

// A token whose end lies further away than a token is shared was written before the
// server's clock was set back. The next caller solves anew.
func testTheClockIsSetBack(t *testing.T, server *postgrestest.Server) {
	address := server.Database(t)
	c := running(t, address, patient, dedup.ClaimTimes{Lease: time.Minute})
	held := must(t, c, "", dedup.ClaimHeld)
	if ok, err := c.End(t.Context(), key, held.Fence, dedup.ClaimEnd{Value: []byte("token"), Lasts: time.Minute}); err != nil || !ok {
		t.Fatalf("ending = %v, %v", ok, err)
	}
	must(t, c, "", dedup.ClaimShared)
	// All times of the row move as if the clock had gone back.
	server.SQL(t, address, `update captcha_cache set ends_at = ends_at + interval '5 minutes',
		kept_until = kept_until + interval '5 minutes', leased_until = leased_until + interval '5 minutes'`)
	if again := must(t, c, "", dedup.ClaimHeld); again.Fence <= held.Fence || again.Solve == held.Solve {
		t.Errorf("solved anew: %+v after %+v", again, held)
	}
}

// Without its tables each call is a redisdb.ErrDown that names the remedy. Once the tables are
// back, calls succeed.
func testDroppedTable(t *testing.T, server *postgrestest.Server) {
	address := server.Database(t)
	c := running(t, address, patient, dedup.ClaimTimes{})
	until(t, "Run is connected", func() bool { // it makes missing tables when it connects
		server.SQL(t, address, "notify "+channel+", 'connected'")
		_, heard := c.woken.Load(captcha.ID("connected"))
		return heard
	})
	server.SQL(t, address, "drop table captcha_cache, captcha_savings")
	for i, err := range all(t, c) {
		if !errors.Is(err, redisdb.ErrDown) || !strings.Contains(redisdb.Reason(err), "does not exist: poold history init makes it") {
			t.Errorf("call %d: %v", i, err)
		}
	}
	until(t, "logged", func() bool { return strings.Contains(c.logs.String(), "does not exist: poold history init makes it") })
	if err := c.db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, err := range all(t, c) {
		if err != nil {
			t.Errorf("call %d once the tables are back: %v", i, err)
		}
	}
}

// until waits until so returns true.
func until(t *testing.T, what string, so func() bool) {
	t.Helper()
	for began := time.Now(); !so(); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > patient {
			t.Fatalf("%s: not within %v", what, patient)
		}
	}
}
