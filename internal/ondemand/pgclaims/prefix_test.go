//go:build !race

package pgclaims

import (
	"context"
	"fmt"
	"testing"

	"poold/internal/ondemand/dedup"
	"poold/internal/postgres"
	"poold/internal/postgres/postgrestest"
)

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
