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
	"poold/internal/ondemand/claimtest"
	"poold/internal/ondemand/dedup"
	"poold/internal/postgres"
	"poold/internal/postgres/postgrestest"
)

// predecessors is how many files the schema of a predecessor has.
const predecessors = 4

// earlier makes a database as the replicas of the version before left it.
func earlier(t *testing.T, server *postgrestest.Server) (address string) {
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

// Replicas of this version and of the one before share claims and savings, in either order of
// their calls: both pass the suite together.
func testOldAndNewReplicas(t *testing.T, server *postgrestest.Server) {
	address := earlier(t, server)
	claimtest.Test(t, func(t *testing.T, times dedup.ClaimTimes) claimtest.Backend {
		var replicas []*replica
		var b claimtest.Backend
		for i := range 3 {
			r := runningAs(t, address, "shop", postgrestest.Patience, times)
			replicas = append(replicas, r)
			if i == 1 {
				b.Replicas = append(b.Replicas, &predecessor{r})
			} else {
				b.Replicas = append(b.Replicas, r)
			}
		}
		empty(t, replicas[0])
		b.Woken = func(i int, key captcha.ID) bool {
			_, ok := replicas[i].woken.Load(key)
			return ok
		}
		b.Left = func(t *testing.T) int { return rows(t, replicas[0]) }
		return b
	})
}

// What a replica of the version before wrote belongs to the installation that replaces it.
func testTheSchemaChangesUnderAnOldReplica(t *testing.T, server *postgrestest.Server) {
	address := earlier(t, server)
	server.SQL(t, address, fmt.Sprintf(`insert into captcha_cache (key, sitekey, pageurl, created_at, ends_at, kept_until, solve, fence, holder,
		identity, leased_until, wanted_until) select '%s', 's', 'p', n, n + interval '3 minutes', n + interval '3 minutes', 'old solve', 7, 'old',
		'identity', n + interval '1 minute', n from clock_timestamp() n; insert into captcha_savings values ((now() at time zone 'UTC')::date, 'solve', 5)`, key))
	c := runningAs(t, address, "shop", postgrestest.Patience, dedup.ClaimTimes{Lease: time.Minute})
	if got := must(t, c, "", dedup.ClaimSolving); got.Solve != "old solve" {
		t.Errorf("entering: %+v", got)
	}
	if days, err := c.Days(t.Context()); err != nil || days[0].BySource[dedup.SavedSolve] != 5 {
		t.Errorf("savings: %+v, %v", days, err)
	}
	if ok, err := c.End(t.Context(), key, 7, dedup.ClaimEnd{Value: []byte("token"), Lasts: dedup.ClaimSolved}); err != nil || !ok {
		t.Errorf("ending: %v, %v", ok, err)
	}
}

// Installations with a prefix each share a database, and each sees its own claims, tokens
// and savings only.
func testInstallationsAreApart(t *testing.T, server *postgrestest.Server) {
	address := server.Database(t)
	var installations []*replica
	for _, prefix := range []string{"captcha", "shop", "shop:2"} {
		installations = append(installations, runningAs(t, address, prefix, postgrestest.Patience, dedup.ClaimTimes{}))
	}
	solves := map[string]bool{}
	for i, c := range installations {
		held := must(t, c, "", dedup.ClaimHeld)
		solves[held.Solve] = true
		if err := c.LetGo(t.Context(), key, held.Fence, "identity"); err != nil {
			t.Fatal(err)
		}
		held = must(t, c, held.Solve, dedup.ClaimHeld)
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
		if got := must(t, c, "", dedup.ClaimShared); string(got.Value) != fmt.Sprint("token ", i) {
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

// rows counts the claims in the table.
func rows(t *testing.T, r *replica) (n int) {
	t.Helper()
	if err := r.db.Do(t.Context(), func(ctx context.Context, tx postgres.Tx) error {
		return tx.First(ctx, []any{&n}, "select count(*) from captcha_cache")
	}); err != nil {
		t.Fatal(err)
	}
	return n
}
