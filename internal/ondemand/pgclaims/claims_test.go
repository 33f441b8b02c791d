//go:build !race

package pgclaims

import (
	"context"
	"sync"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/ondemand/claimtest"
	"poold/internal/ondemand/dedup"
	"poold/internal/postgres"
	"poold/internal/postgres/postgrestest"
	"poold/internal/testkit"
)

// replica is one daemon's claims.
type replica struct {
	*Claims
	logs  testkit.Log
	woken sync.Map // keys with which the store has woken the replica
}

// runClaims runs claims with the usual prefix on a database until the test ends.
func runClaims(t *testing.T, address string, limit time.Duration, times dedup.ClaimTimes) *replica {
	t.Helper()
	return runClaimsAs(t, address, "captcha", limit, times)
}

// runClaimsAs runs the claims of an installation on a database until the test ends. If the server
// responds, runClaimsAs also creates the schema.
func runClaimsAs(t *testing.T, address, prefix string, limit time.Duration, times dedup.ClaimTimes) *replica {
	t.Helper()
	r := &replica{}
	log := r.logs.Logger()
	db, err := postgres.Open(address, postgres.Options{Log: log, Limit: limit})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	_ = db.Migrate(t.Context())
	r.Claims = New(db, Options{Prefix: prefix, Times: times, Clean: 300 * time.Millisecond, Wake: func(key captcha.ID) { r.woken.Store(key, true) }})
	postgrestest.Run(t, r.Run)
	return r
}

// pgclaims passes the conformance suite.
func testClaims(t *testing.T, server *postgrestest.Server) {
	address := server.Database(t)
	claimtest.Test(t, func(t *testing.T, times dedup.ClaimTimes) claimtest.Backend {
		replicas := make([]*replica, 3)
		var b claimtest.Backend
		for i := range replicas {
			replicas[i] = runClaims(t, address, postgrestest.Patience, times)
			b.Replicas = append(b.Replicas, replicas[i])
		}
		deleteRows(t, replicas[0])
		b.Woken = func(i int, key captcha.ID) bool {
			_, ok := replicas[i].woken.Load(key)
			return ok
		}
		b.Left = func(t *testing.T) int { return countClaims(t, replicas[0]) }
		return b
	})
}

func deleteRows(t *testing.T, r *replica) {
	t.Helper()
	if err := r.db.Do(t.Context(), func(ctx context.Context, tx postgres.Tx) error {
		_, err := tx.Exec(ctx, "truncate captcha_cache, captcha_savings")
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// All tests that need a server share one server.
func TestOnAServer(t *testing.T) {
	postgrestest.On(t, map[string]func(*testing.T, *postgrestest.Server){
		"Claims":                testClaims,
		"LostAnswers":           testLostAnswers,
		"Outages":               testOutages,
		"RefusedWrites":         testRefusedWrites,
		"OldDays":               testOldDays,
		"DroppedTable":          testDroppedTable,
		"InstallationsAreApart": testInstallationsAreApart,
		"TheClockIsSetBack":     testTheClockIsSetBack,
	})
}
