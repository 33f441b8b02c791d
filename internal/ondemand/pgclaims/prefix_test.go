//go:build !race

package pgclaims

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/ondemand/dedup"
	"poold/internal/postgres"
	"poold/internal/postgres/postgrestest"
)

// predecessors is the number of schema files of the last version without prefixes.
const predecessors = 4

// makeOldDatabase makes a database of the last version without prefixes.
func makeOldDatabase(t *testing.T, server *postgrestest.Server) (address string) {
	t.Helper()
	address = server.Database(t)
	server.SQL(t, address, "create table poold_schema (version integer primary key, applied_at timestamptz not null)")
	files, err := filepath.Glob("../../postgres/sql/*.sql")
	if err != nil || len(files) < predecessors {
		t.Fatal(files, err)
	}
	for i, name := range files[:predecessors] {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		server.SQL(t, address, string(text)+fmt.Sprintf("; insert into poold_schema values (%d, now())", i+1))
	}
	return address
}

// Replicas of the last version without prefixes share claims and savings with the installation that
// replaces them. Both find each other's rows, because the keys and sources have no prefix.
func testOldAndNewReplicas(t *testing.T, server *postgrestest.Server) {
	address := makeOldDatabase(t, server)
	begin := func(key captcha.ID, solve string) { // begins a solve as a replica of the old version does
		t.Helper()
		server.SQL(t, address, fmt.Sprintf(`insert into captcha_cache (key, sitekey, pageurl, created_at, ends_at, kept_until, solve, fence, holder,
			identity, leased_until, wanted_until) select '%s', 's', 'p', n, n + interval '3 minutes', n + interval '3 minutes', '%s', 7, 'old',
			'identity', n + interval '1 minute', n from clock_timestamp() n`, key, solve))
	}
	count := func(n int) {
		t.Helper()
		server.SQL(t, address, fmt.Sprintf(`insert into captcha_savings as s (day, source, requests) values ((now() at time zone 'UTC')::date, 'solve', %d)
			on conflict (day, source) do update set requests = s.requests + excluded.requests`, n))
	}
	finishes := func(c *replica, key captcha.ID, solve string) {
		t.Helper()
		entry := entryFor(solve)
		entry.Key = key
		if got, err := c.Enter(t.Context(), entry); err != nil || got.State != dedup.ClaimSolving || got.Solve != solve {
			t.Errorf("entering: %+v, %v", got, err)
		}
		if ok, err := c.End(t.Context(), key, 7, dedup.ClaimEnd{Value: []byte("token"), Lasts: dedup.ClaimSolved}); err != nil || !ok {
			t.Errorf("ending: %v, %v", ok, err)
		}
		if row := server.SQL(t, address, fmt.Sprintf("select solve, convert_from(solution, 'UTF8') from captcha_cache where key = '%s'", key)); row != solve+"|token" {
			t.Errorf("the old replica reads %s", row)
		}
	}
	begin("before", "one")
	count(5)
	c := runClaimsAs(t, address, "shop", postgrestest.Patience, dedup.ClaimTimes{Lease: time.Minute})
	finishes(c, "before", "one")
	begin("after", "two")
	count(3)
	finishes(c, "after", "two")

	held := mustEnter(t, c, "", dedup.ClaimHeld)
	if row := server.SQL(t, address, fmt.Sprintf("select solve, fence, leased_until > now() from captcha_cache where key = '%s'", key)); row != fmt.Sprintf("%s|%d|t", held.Solve, held.Fence) {
		t.Errorf("the old replica reads %s of %+v", row, held)
	}
	if err := c.Count(t.Context(), map[dedup.SavingsSource]int{dedup.SavedSolve: 4}); err != nil {
		t.Error(err)
	}
	if days, err := c.Days(t.Context()); err != nil || days[0].BySource[dedup.SavedSolve] != 12 {
		t.Errorf("savings: %+v, %v", days, err)
	}
	if sum := server.SQL(t, address, "select requests from captcha_savings where source = 'solve'"); sum != "12" {
		t.Errorf("the old replica reads %s requests", sum)
	}
}

// Installations with different prefixes share a database. Each installation sees only its own claims,
// tokens and savings.
func testInstallationsAreApart(t *testing.T, server *postgrestest.Server) {
	address := server.Database(t)
	var installations []*replica
	for _, prefix := range []string{"captcha", "shop", "shop:2"} {
		installations = append(installations, runClaimsAs(t, address, prefix, postgrestest.Patience, dedup.ClaimTimes{}))
	}
	solves := map[string]bool{}
	for i, c := range installations {
		held := mustEnter(t, c, "", dedup.ClaimHeld)
		solves[held.Solve] = true
		if err := c.Release(t.Context(), key, held.Fence, "identity"); err != nil {
			t.Fatal(err)
		}
		held = mustEnter(t, c, held.Solve, dedup.ClaimHeld)
		if mine, _, err := c.Hold(t.Context(), key, held.Fence, "identity"); err != nil || !mine {
			t.Errorf("holding: %v, %v", mine, err)
		}
		value := fmt.Sprint("token ", i)
		if ok, err := c.End(t.Context(), key, held.Fence, dedup.ClaimEnd{Value: []byte(value), Lasts: dedup.ClaimSolved}); err != nil || !ok {
			t.Errorf("ending: %v, %v", ok, err)
		}
		if err := c.Count(t.Context(), map[dedup.SavingsSource]int{dedup.SavedSolve: i + 1}); err != nil {
			t.Error(err)
		}
	}
	for i, c := range installations {
		if got := mustEnter(t, c, "", dedup.ClaimShared); string(got.Value) != fmt.Sprint("token ", i) {
			t.Errorf("installation %d shares %q", i, got.Value)
		}
		days, err := c.Days(t.Context())
		if err != nil || days[0].BySource[dedup.SavedSolve] != int64(i+1) || days[0].BySource[dedup.SavedAfter] != 1 || len(days[0].BySource) != 2 {
			t.Errorf("installation %d counted %+v, %v", i, days[0], err)
		}
	}
	if len(solves) != 3 {
		t.Errorf("solves: %v", solves)
	}
	if got := server.SQL(t, address, "select string_agg(distinct prefix, ' ' order by prefix) from captcha_cache"); got != "captcha shop shop:2" {
		t.Errorf("prefixes: %s", got)
	}
}

func countClaims(t *testing.T, r *replica) (n int) {
	t.Helper()
	if err := r.db.Do(t.Context(), func(ctx context.Context, tx postgres.Tx) error {
		return tx.First(ctx, []any{&n}, "select count(*) from captcha_cache")
	}); err != nil {
		t.Fatal(err)
	}
	return n
}
