//go:build !race

package pgclaims

import (
	"errors"
	"strings"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/ondemand/dedup"
	"poold/internal/postgres"
	"poold/internal/postgres/postgrestest"
	"poold/internal/redisdb"
	"poold/internal/testkit"
)

// All tests in this file use the claim with this key.
const key = captcha.ID("0123456789abcdef")

// entryFor returns an entry for key; the argument solve is "" for a new caller.
func entryFor(solve string) dedup.ClaimEntry {
	return dedup.ClaimEntry{Key: key, Solve: solve, Identity: "identity", Sitekey: "sitekey", Pageurl: "https://example.com/login", Callers: 1}
}

func mustEnter(t *testing.T, c *replica, solve string, state dedup.ClaimState) dedup.Claim {
	t.Helper()
	got, err := c.Enter(t.Context(), entryFor(solve))
	if err != nil || got.State != state {
		t.Fatalf("entering: %+v, %v, want %s", got, err, state)
	}
	return got
}

func callAll(t *testing.T, c *replica) []error {
	t.Helper()
	_, entered := c.Enter(t.Context(), entryFor(""))
	_, _, held := c.Hold(t.Context(), key, 1, "identity")
	letGo := c.Release(t.Context(), key, 1, "identity")
	_, ended := c.End(t.Context(), key, 1, dedup.ClaimEnd{})
	counted := c.Count(t.Context(), map[dedup.SavingsSource]int{dedup.SavedPool: 1})
	_, read := c.Days(t.Context())
	return []error{entered, held, letGo, ended, counted, read}
}

// A lost reply changes nothing: the retry also reports that the replica began, took over or ended
// the solve.
func testLostAnswers(t *testing.T, server *postgrestest.Server) {
	address := server.Database(t)
	thief, through := postgrestest.Through(t, address)
	times := dedup.ClaimTimes{Lease: 3 * time.Second}
	one, two := runClaims(t, through, postgrestest.Patience, times), runClaims(t, through, postgrestest.Patience, times)
	steal := func(what string, call func()) {
		t.Helper()
		before := thief.Stolen()
		thief.Steal("commit\x00")
		call()
		if thief.Stolen() != before+1 {
			t.Errorf("%s: no answer was stolen", what)
		}
	}
	// The lost reply may also be the reply to the statement that deletes ended claims.
	var first, second dedup.Claim
	steal("begin", func() { first = mustEnter(t, one, "", dedup.ClaimHeld) })
	time.Sleep(times.Lease)
	steal("take over", func() { second = mustEnter(t, two, first.Solve, dedup.ClaimHeld) })
	if second.Solve != first.Solve || second.Fence <= first.Fence {
		t.Errorf("taken over: %+v from %+v", second, first)
	}
	steal("end", func() {
		if ok, err := two.End(t.Context(), key, second.Fence, dedup.ClaimEnd{Value: []byte("token"), Lasts: time.Minute}); err != nil || !ok {
			t.Errorf("ending = %v, %v", ok, err)
		}
	})
	mustEnter(t, one, first.Solve, dedup.ClaimShared)
	// An operator can read the table.
	row := server.SQL(t, address, `select sitekey, pageurl, convert_from(solution, 'UTF8'), created_at between now() - interval '5 minutes' and now() from captcha_cache`)
	if row != "sitekey|https://example.com/login|token|t" {
		t.Errorf("the row is %s", row)
	}
}

// While the server is away, each call fails within a second with redisdb.ErrDown. No error and no log
// line quotes the address. After the outage calls succeed.
func testOutages(t *testing.T, server *postgrestest.Server) {
	address := server.Database(t)
	c := runClaims(t, address, 0, dedup.ClaimTimes{})
	mustEnter(t, c, "", dedup.ClaimHeld)
	for name, outage := range server.Outages(t) {
		t.Run(name, func(t *testing.T) {
			outage.Begin()
			began := time.Now()
			errs := callAll(t, c)
			if took := time.Since(began); took > time.Duration(len(errs))*time.Second {
				t.Errorf("%d calls took %v", len(errs), took)
			}
			for i, err := range errs {
				if !errors.Is(err, redisdb.ErrDown) || !errors.Is(err, postgres.ErrDown) {
					t.Errorf("call %d: %v", i, err)
					continue
				}
				postgrestest.Hidden(t, "the error", err.Error())
			}
			outage.End()
			testkit.Within(t, postgrestest.Patience, "healed", func() bool { return errors.Join(callAll(t, c)...) == nil })
		})
	}
	postgrestest.Hidden(t, "the log", c.logs.String())
}

// The store keeps the last seven days and deletes older days.
func testOldDays(t *testing.T, server *postgrestest.Server) {
	address := server.Database(t)
	c := runClaims(t, address, postgrestest.Patience, dedup.ClaimTimes{})
	server.SQL(t, address, `insert into captcha_savings select (now() at time zone 'UTC')::date - ago, 'captcha:pool', 'captcha', ago from generate_series(1, 10) ago`)
	testkit.Within(t, postgrestest.Patience, "deleted", func() bool {
		return server.SQL(t, address, "select string_agg(requests::text, ' ' order by requests) from captcha_savings") == "1 2 3 4 5 6"
	})
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

// If the end of a token is too far in the future, the server's clock was set back after the token was
// written. The next caller begins a new solve.
func testTheClockIsSetBack(t *testing.T, server *postgrestest.Server) {
	address := server.Database(t)
	c := runClaims(t, address, postgrestest.Patience, dedup.ClaimTimes{Lease: time.Minute})
	held := mustEnter(t, c, "", dedup.ClaimHeld)
	if ok, err := c.End(t.Context(), key, held.Fence, dedup.ClaimEnd{Value: []byte("token"), Lasts: time.Minute}); err != nil || !ok {
		t.Fatalf("ending = %v, %v", ok, err)
	}
	mustEnter(t, c, "", dedup.ClaimShared)
	// All times of the row are moved into the future, as if the clock had been set back.
	server.SQL(t, address, `update captcha_cache set ends_at = ends_at + interval '5 minutes',
		kept_until = kept_until + interval '5 minutes', leased_until = leased_until + interval '5 minutes'`)
	if again := mustEnter(t, c, "", dedup.ClaimHeld); again.Fence <= held.Fence || again.Solve == held.Solve {
		t.Errorf("solved anew: %+v after %+v", again, held)
	}
}

// If the tables of the claim store are missing, each call fails with a redisdb.ErrDown that names
// the remedy. After the tables are recreated, calls succeed.
func testDroppedTable(t *testing.T, server *postgrestest.Server) {
	address := server.Database(t)
	c := runClaims(t, address, postgrestest.Patience, dedup.ClaimTimes{})
	testkit.Within(t, postgrestest.Patience, "Run is connected", func() bool { // Run creates missing tables when it connects
		server.SQL(t, address, "notify "+channel+", 'connected'")
		_, heard := c.woken.Load(captcha.ID("connected"))
		return heard
	})
	server.SQL(t, address, "drop table captcha_cache, captcha_savings")
	for i, err := range callAll(t, c) {
		if !errors.Is(err, redisdb.ErrDown) || !strings.Contains(redisdb.Reason(err), "does not exist: poold history init makes it") {
			t.Errorf("call %d: %v", i, err)
		}
	}
	testkit.Within(t, postgrestest.Patience, "logged", func() bool { return strings.Contains(c.logs.String(), "does not exist: poold history init makes it") })
	if err := c.db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, err := range callAll(t, c) {
		if err != nil {
			t.Errorf("call %d once the tables are back: %v", i, err)
		}
	}
}

// If the server cannot write a claim, the call fails with a redisdb.ErrDown that names the operation.
// The call changes nothing and wakes no replica. The holder can repeat the call.
func testRefusedWrites(t *testing.T, server *postgrestest.Server) {
	address := server.Database(t)
	c := runClaims(t, address, postgrestest.Patience, dedup.ClaimTimes{})
	held := mustEnter(t, c, "", dedup.ClaimHeld)
	const row = "select solve, fence, holder, leased_until, wanted_until, ends_at, outcome from captcha_cache"
	before := server.SQL(t, address, row)
	server.SQL(t, address, `create function refuse() returns trigger language plpgsql as $$ begin raise exception using errcode = '53100'; end $$;
		create trigger refuse before update on captcha_cache for each row execute function refuse()`)
	calls := map[string]func() error{
		"entering a claim: ":   func() error { _, err := c.Enter(t.Context(), entryFor(held.Solve)); return err },
		"holding a claim: ":    func() error { _, _, err := c.Hold(t.Context(), key, held.Fence, "other"); return err },
		"letting a claim go: ": func() error { return c.Release(t.Context(), key, held.Fence, "other") },
		"ending a claim: ": func() error {
			_, err := c.End(t.Context(), key, held.Fence, dedup.ClaimEnd{Value: []byte("token"), Lasts: time.Minute})
			return err
		},
		"ending a claim: failed": func() error { _, err := c.End(t.Context(), key, held.Fence, dedup.ClaimEnd{Failed: true}); return err },
	}
	for name, call := range calls {
		doing, _, _ := strings.Cut(name, ": ")
		if err := call(); !errors.Is(err, redisdb.ErrDown) || !strings.HasPrefix(err.Error(), doing+": postgres does not serve: it lacks memory or disk") {
			t.Errorf("%s: %v", doing, err)
		}
	}
	if after := server.SQL(t, address, row); after != before {
		t.Errorf("the row is\n%s, want\n%s", after, before)
	}
	if _, woken := c.woken.Load(key); woken {
		t.Error("a replica was woken")
	}
	server.SQL(t, address, "drop trigger refuse on captcha_cache")
	if ok, err := c.End(t.Context(), key, held.Fence, dedup.ClaimEnd{Value: []byte("token"), Lasts: time.Minute}); err != nil || !ok {
		t.Errorf("ending = %v, %v", ok, err)
	}
	mustEnter(t, c, held.Solve, dedup.ClaimShared)
}
