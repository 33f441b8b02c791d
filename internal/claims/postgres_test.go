package claims_test

import (
	"crypto/rand"
	"log/slog"
	"strings"
	"testing"
	"time"

	"poold/internal/claims"
	"poold/internal/postgres"
	"poold/internal/postgres/postgrestest"
	"poold/internal/redisdb"
	"poold/internal/testkit"
)

func TestPostgres(t *testing.T) {
	testkit.WithoutRace(t)
	tests := map[string]func(*testing.T, *postgrestest.Cluster){
		"StolenReplies": testStolenCommits, "DroppedTable": testDroppedTable, "Rows": testRows,
	}
	for name, test := range suite {
		tests[name] = func(t *testing.T, server *postgrestest.Cluster) {
			address, prefix := server.Database(t), "test-"+rand.Text()
			test(t, newWorld(t, func() claims.Store { return openPostgres(t, address, prefix) }))
		}
	}
	postgrestest.On(t, tests)
}

func openPostgres(t *testing.T, address, prefix string) *claims.Postgres {
	t.Helper()
	db, err := postgres.Open(address, postgrestest.Patience, slog.New(slog.DiscardHandler))
	testkit.NoError(t, err)
	t.Cleanup(db.Close)
	testkit.NoError(t, db.Migrate(t.Context()))
	return claims.InPostgres(db, prefix)
}

// The reply to the commit of a swap is lost on the network.
func testStolenCommits(t *testing.T, server *postgrestest.Cluster) {
	address := server.Database(t)
	thief, through := postgrestest.Through(t, address)
	w := &world{}
	w.pass(1000 * time.Hour)
	for i := range w.stores {
		w.stores[i] = openPostgres(t, through, "captcha")
	}
	stolen := 0
	play(t, w, func(swap func() (bool, error)) (bool, error) {
		thief.Steal("commit\x00")
		stolen++
		return swap()
	})
	if thief.Stolen() != stolen || stolen == 0 {
		t.Errorf("%d replies stolen, want %d", thief.Stolen(), stolen)
	}
}

// While the table is missing, each step fails, and the reason names the table. Run makes the table again. Package
// postgres tests other outages.
func testDroppedTable(t *testing.T, server *postgrestest.Cluster) {
	address := server.Database(t)
	store := openPostgres(t, address, "captcha")
	server.SQL(t, address, "drop table captcha_cache")
	_, swap := store.Swap(t.Context(), newKey(), 0, claims.Change{})
	for _, err := range append(stepsFail(t, store), swap) {
		testkit.Equal(t, "the reason", redisdb.Reason(err),
			"postgres does not serve: the table captcha_cache does not exist: poold history init makes it")
	}
	testkit.Run(t, store.Run)
	c := claims.Claims{Store: store}
	testkit.Within(t, postgrestest.Patience, "it heals",
		func() bool { _, err := c.Enter(t.Context(), entry(newKey(), "")); return err == nil })
}

// An operator can read the table. Installations with other prefixes share it, and see only their own claims.
func testRows(t *testing.T, server *postgrestest.Cluster) {
	address := server.Database(t)
	for _, prefix := range []string{"captcha", "shop", "shop:2"} {
		c := claims.Claims{Store: openPostgres(t, address, prefix)}
		got, err := c.Enter(t.Context(), entry("key", ""))
		if err != nil || got.State != claims.Held {
			t.Fatal(got, err)
		}
		if ok, err := c.End(t.Context(), "key", got.Fence, claims.End{Value: []byte(prefix), Lasts: time.Minute}); !ok ||
			err != nil {
			t.Errorf("ending: %v, %v", ok, err)
		}
		if got, err := c.Enter(t.Context(), entry("key", "")); err != nil || string(got.Value) != prefix {
			t.Errorf("%s shares %+v, %v", prefix, got, err)
		}
	}
	const row = "captcha:key|sitekey|https://example.com/login|captcha|t"
	got := server.SQL(t, address, `select key, sitekey, pageurl, convert_from(solution, 'UTF8'),
		created_at between now() - interval '5 minutes' and now() from captcha_cache order by key`)
	if !strings.HasPrefix(got, row) {
		t.Errorf("the rows are %s", got)
	}
	c := claims.Claims{Store: openPostgres(t, address, "captcha")}
	for range 2 { // a later solve of a key keeps its row again
		claim, err := c.Enter(t.Context(), entry("again", ""))
		testkit.NoError(t, err)
		testkit.Equal(t, "the row is kept", server.SQL(t, address, "select kept_until > now() + interval '2 minutes' "+
			"from captcha_cache where key = 'captcha:again'"), "t")
		_, err = c.End(t.Context(), "again", claim.Fence, claims.End{Lasts: time.Nanosecond})
		testkit.NoError(t, err)
		server.SQL(t, address, "update captcha_cache set kept_until = now() + interval '1 second'")
	}
}
