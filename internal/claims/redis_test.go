package claims_test

import (
	"crypto/rand"
	"errors"
	"log/slog"
	"testing"

	"poold/internal/captcha"
	"poold/internal/claims"
	"poold/internal/redisdb"
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

func TestRedis(t *testing.T) {
	tests := map[string]func(*testing.T, redistest.Place){}
	for name, test := range suite {
		tests[name] = func(t *testing.T, p redistest.Place) {
			prefix := "test-" + rand.Text()
			test(t, newWorld(t, func() claims.Store { return openRedis(t, p, prefix) }))
		}
	}
	redistest.OnEvery(t, tests, []string{"Stories"})
}

func openRedis(t *testing.T, p redistest.Place, prefix string) claims.Store {
	t.Helper()
	db, err := redisdb.Open(redisdb.Options{
		Addresses: p.Addresses, SentinelMaster: p.SentinelMaster, Dial: p.Dial, Prefix: prefix,
		Log: slog.New(slog.DiscardHandler),
	})
	testkit.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return claims.InRedis(db)
}

// Claims work in a Redis without free memory, for a user with the documented rights.
func TestFullRedis(t *testing.T) {
	t.Parallel()
	addr := redistest.Server(t, append([]string{"--maxmemory-policy", "noeviction", "--user"}, redistest.Rights(t)...)...)
	redistest.Do(t, addr, "CONFIG", "SET", "maxmemory", "1")
	place := redistest.Place{Addresses: "redis://poold:" + redistest.Password + "@" + addr}
	play(t, newWorld(t, func() claims.Store { return openRedis(t, place, "captcha") }), nil)
}

// Each step fails while Redis does not answer or does not write: nothing is shared by a replica of Redis.
func TestRedisIsAway(t *testing.T) {
	t.Parallel()
	readOnly := redistest.Server(t)
	redistest.Do(t, readOnly, "REPLICAOF", "127.0.0.1", "1")
	for _, addr := range []string{redistest.FreeAddress(t), readOnly} {
		stepsFail(t, openRedis(t, redistest.Place{Addresses: "redis://" + addr}, "test-away"))
	}
}

// stepsFail checks that each step fails with a redisdb.ErrDown, and returns the errors.
func stepsFail(t *testing.T, s claims.Store) []error {
	t.Helper()
	c, key := claims.Claims{Store: s}, captcha.ID("k")
	_, entered := c.Enter(t.Context(), entry(key, ""))
	mine, held := c.Hold(t.Context(), key, 1)
	ok, ended := c.End(t.Context(), key, 1, claims.End{})
	errs := []error{entered, held, ended, c.Release(t.Context(), key, 1)}
	for i, err := range errs {
		if !errors.Is(err, redisdb.ErrDown) || mine || ok {
			t.Fatalf("step %d: %v", i, err)
		}
	}
	return errs
}
