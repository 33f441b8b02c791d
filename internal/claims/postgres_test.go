package claims_test

import (
	"crypto/rand"
	"errors"
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
		"StolenReplies": testStolenCommits, "Outages": testOutages, "Rows": testRows,
	}
	for name, test := range suite {
		tests[name] = func(t *testing.T, server *postgrestest.Cluster) {
			address, prefix := server.Database(t), "test-"+rand.Text()
			test(t, newWorld(t, func() claims.Store { return openPostgres(t, address, prefix, postgrestest.Patience, nil) }))
		}
	}
	postgrestest.On(t, tests)
}

// openPostgres opens a store whose calls end within the limit.
func openPostgres(t *testing.T, address, prefix string, limit time.Duration, log *testkit.Log) *claims.Postgres {
	t.Helper()
	if log == nil {
		log = &testkit.Log{}
	}
	db, err := postgres.Open(address, limit, log.Logger())
	testkit.NoError(t, err)
	t.Cleanup(db.Close)
	if err := db.Migrate(t.Context()); err != nil && !errors.Is(err, postgres.ErrDown) { // Run may come later
		t.Fatal(err)
	}
	return claims.InPostgres(db, prefix)
}

// The reply to the commit of a swap is lost on the network.
func testStolenCommits(t *testing.T, server *postgrestest.Cluster) {
	address := server.Database(t)
	thief, through := postgrestest.Through(t, address)
	w := &world{}
	w.pass(1000 * time.Hour)
	for i := range w.stores {
		w.stores[i] = openPostgres(t, through, "captcha", postgrestest.Patience, nil)
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

// While the server is away, each step fails within a second, and no error or log quotes the address. A dropped table is
// named. Then all heals.
func testOutages(t *testing.T, server *postgrestest.Cluster) {
	var log testkit.Log
	// package postgres knows more
	for name, outage := range map[string]postgrestest.Outage{"silent": server.Outages(t)["silent"], "dropped": {}} {
		address := server.Database(t)
		store := openPostgres(t, address, "captcha", postgres.DefaultLimit, &log)
		c := claims.Claims{Store: store}
		if name == "dropped" { // Run makes the table
			outage.Begin = func() { server.SQL(t, address, "drop table captcha_cache") }
			outage.End = func() { testkit.Run(t, store.Run) }
		} else {
			testkit.Run(t, store.Run)
		}
		heals := func() bool { _, err := c.Enter(t.Context(), entry(newKey(), "")); return err == nil }
		testkit.Within(t, postgrestest.Patience, "it serves", heals)
		outage.Begin()
		began := time.Now()
		for _, err := range stepsFail(t, c.Store) {
			postgrestest.Hidden(t, name, err.Error())
			if dropped := strings.Contains(redisdb.Reason(err),
				"captcha_cache does not exist: poold history init makes it"); dropped != (name == "dropped") {
				t.Errorf("%s: %s", name, redisdb.Reason(err))
			}
		}
		testkit.AtMost(t, name+": time of four steps", time.Since(began), 8*time.Second) // a busy machine may be slow
		outage.End()
		testkit.Within(t, postgrestest.Patience, "it heals", heals)
	}
	postgrestest.Hidden(t, "the log", log.String())
}

// An operator can read the table. Installations with other prefixes share it, and see only their own claims.
func testRows(t *testing.T, server *postgrestest.Cluster) {
	address := server.Database(t)
	for _, prefix := range []string{"captcha", "shop", "shop:2"} {
		c := claims.Claims{Store: openPostgres(t, address, prefix, postgrestest.Patience, nil)}
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
	c := claims.Claims{Store: openPostgres(t, address, "captcha", postgrestest.Patience, nil)}
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
