package backend_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"poold/internal/backend"
	"poold/internal/history/dynamostore"
	"poold/internal/provider"
	"poold/internal/redisdb"
	"poold/internal/redisdb/redistest"
	"poold/internal/targets"
	"poold/internal/testkit"
)

// ProviderConfig copies every value of the file, and adds the missing values of the simulated
// provider.
func TestProviderConfigHasTheValuesOfTheFile(t *testing.T) {
	real := targets.Provider{
		Name: "acme", Protocol: targets.ProtocolCreateTask, Profile: "captchaai", URL: "https://s.example.com", Key: "k1",
		FirstPoll: 7 * time.Second, PollInterval: 3 * time.Second, Timeout: time.Minute, Balance: true,
	}
	simulated := targets.Provider{Name: "own", Protocol: targets.ProtocolSimulated, Profile: "generic", Timeout: time.Minute}
	paced, slow := simulated, simulated
	paced.FirstPoll, paced.PollInterval = 5*time.Second, 4*time.Second
	slow.FirstPoll = 5 * time.Second
	config := func(first, interval time.Duration) provider.Config {
		return provider.Config{Name: "own", Protocol: provider.ProtocolInPHP, Profile: "2captcha", FirstPoll: first, PollInterval: interval, Timeout: time.Minute}
	}
	for name, c := range map[string]struct {
		file targets.Provider
		want provider.Config
	}{
		"a real one": {real, provider.Config{
			Name: "acme", Protocol: provider.ProtocolCreateTask, Profile: "captchaai", URL: "https://s.example.com", Key: "k1",
			FirstPoll: 7 * time.Second, PollInterval: 3 * time.Second, Timeout: time.Minute, Balance: true,
		}},
		"simulated":              {simulated, config(2*time.Second, time.Second)},
		"simulated, with a pace": {paced, config(5*time.Second, 4*time.Second)},
		"simulated, half a pace": {slow, config(5*time.Second, time.Second)},
	} {
		if got := backend.ProviderConfig(c.file); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\n%+v\nwant\n%+v", name, got, c.want)
		}
	}
}

// Each store gets its own address and the prefix of the installation.
func TestStoresHaveTheAddressesOfTheFile(t *testing.T) {
	set := &targets.Set{
		Redis: targets.Redis{Prefix: "mine"},
		Dedup: targets.Dedup{Backend: targets.DedupPostgres, URL: "postgres://d"},
		History: targets.History{
			Backend: targets.HistoryPostgres, URL: "postgres://h", Table: "T", Endpoint: "http://e", Region: "r", Keep: time.Hour, Audit: time.Minute,
		},
	}
	want := []backend.Database{{Key: "dedup.url", URL: "postgres://d"}, {Key: "history.url", URL: "postgres://h"}}
	if got := backend.Databases(set); !reflect.DeepEqual(got, want) {
		t.Errorf("databases %+v, want %+v", got, want)
	}
	table := dynamostore.Options{Table: "T", Endpoint: "http://e", Region: "r", Keep: time.Hour, KeepAudit: time.Minute}
	if got := backend.TableOptions(set.History); got != table {
		t.Errorf("table %+v, want %+v", got, table)
	}
	set.Dedup.Backend, set.History.Backend = targets.DedupRedis, targets.HistoryDynamoDB
	if got := backend.Databases(set); len(got) != 0 {
		t.Errorf("databases that no section uses: %+v", got)
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
	if err != nil {
		t.Fatal(err)
	}
	db, err := redisdb.Open(backend.RedisOptions(set.Redis, set.Redis.URL.Reveal(), slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if found := db.Try(t.Context()); found.Version == "" {
		t.Errorf("%+v", found)
	}
	db.SetTLS(redisdb.TLS{})
	if err := db.Hot.Ping(t.Context()).Err(); !errors.Is(err, redisdb.ErrDown) {
		t.Errorf("without the certificates: %v", err)
	}
}

// An error about an address names the key of the file that has the wrong value.
func TestFaultsNameTheKeyOfTheFile(t *testing.T) {
	_, err := backend.Database{Key: "history.url", URL: "postgres://h:port"}.Open(slog.New(slog.DiscardHandler))
	if err == nil || !strings.HasPrefix(err.Error(), "history.url: ") {
		t.Errorf("database: %v", err)
	}
}

// The messages of the Redis client are logged at level debug.
func TestRedisLogWritesAtDebug(t *testing.T) {
	var log testkit.Log
	backend.RedisLog{Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}.Printf(t.Context(), "dial %d", 5)
	if log.Count("level=DEBUG", `err="dial 5"`) != 1 {
		t.Errorf("%s", log.String())
	}
}
