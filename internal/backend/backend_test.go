package backend_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"poold/internal/backend"
	"poold/internal/redisdb"
	"poold/internal/redisdb/redistest"
	"poold/internal/targets"
	"poold/internal/testkit"
)

// Each store gets its own address and the prefix of the installation.
func TestStoresHaveTheAddressesOfTheFile(t *testing.T) {
	set := &targets.Set{
		Dedup: targets.Dedup{Backend: targets.DedupPostgres, URL: "postgres://d"},
		History: targets.History{
			Backend: targets.HistoryPostgres, URL: "postgres://h", Table: "T", Endpoint: "http://e", Region: "r",
			Keep: time.Hour, Audit: time.Minute,
		},
	}
	keys := func() (list []string) {
		stores, err := backend.Stores(t.Context(), set, slog.New(slog.DiscardHandler))
		for _, s := range stores {
			list = append(list, s.Key)
			s.Close()
		}
		if err != nil {
			list = append(list, err.Error())
		}
		return list
	}
	testkit.Equal(t, "stores", strings.Join(keys(), " "), "dedup.url history.url")
	set.Dedup.Backend, set.History.Backend = targets.DedupRedis, targets.HistoryDynamoDB
	testkit.Equal(t, "stores", strings.Join(keys(), " "), "history")
	set.History.Backend, set.History.URL = targets.HistoryPostgres, "postgres://h:port"
	if got := strings.Join(keys(), " "); !strings.HasPrefix(got, "history.url: ") { // an error names the key
		t.Errorf("stores %s", got)
	}
}

// The keys of redis.tls are enough for a Redis that requires a client certificate of an issuer that the machine does
// not know.
func TestRedisWithClientCertificates(t *testing.T) {
	dir, port := redistest.Certificates(t), strconv.Itoa(testkit.FreePort(t))
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	redistest.Server(t, "--tls-port", port, "--tls-auth-clients", "yes", "--tls-cert-file", cert, "--tls-key-file", key,
		"--tls-ca-cert-file", cert)
	file := fmt.Sprintf(`redis: {url: "rediss://127.0.0.1:%s", tls: {cert: %q, key: %q, ca: %q}}
providers: [{name: p, url: "https://s.example.com", key: k}]
targets: {a: {type: turnstile, sitekey: k, pageurl: "https://example.com/", owner: o}}
`, port, cert, key, cert)
	set, err := targets.Parse("pools.yaml", []byte(file), targets.References{File: os.ReadFile})
	testkit.NoError(t, err)
	db, err := redisdb.Open(backend.RedisOptions(set.Redis, set.Redis.URL.Reveal(), slog.New(slog.DiscardHandler)))
	testkit.NoError(t, err)
	defer func() { _ = db.Close() }()
	if _, err := db.Try(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "Redis keeps no append-only file") {
		t.Error(err)
	}
	db.SetTLS(targets.RedisTLS{})
	testkit.ErrorIs(t, "without the certificates", db.Fast.Ping(t.Context()).Err(), redisdb.ErrDown)
}
