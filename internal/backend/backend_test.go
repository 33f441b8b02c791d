package backend_test

import (
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"poold/internal/backend"
	"poold/internal/history/dynamostore"
	"poold/internal/provider"
	"poold/internal/targets"
	"poold/internal/testkit"
)

// ProviderConfig copies every value of the file, and adds the missing values of the simulated
// provider.
func TestProviderConfigHasTheValuesOfTheFile(t *testing.T) {
	real := targets.Provider{
		Name: "acme", API: targets.APITasks, Profile: "captchaai", URL: "https://s.example.com", Key: "k1",
		FirstPoll: 7 * time.Second, PollInterval: 3 * time.Second, Timeout: time.Minute, Balance: true,
	}
	simulated := targets.Provider{Name: "own", API: targets.APISimulated, Profile: "generic", Timeout: time.Minute}
	paced, slow := simulated, simulated
	paced.FirstPoll, paced.PollInterval = 5*time.Second, 4*time.Second
	slow.FirstPoll = 5 * time.Second
	config := func(first, interval time.Duration) provider.Config {
		return provider.Config{Name: "own", API: provider.APILegacy, Profile: "2captcha", FirstPoll: first, PollInterval: interval, Timeout: time.Minute}
	}
	for name, c := range map[string]struct {
		file targets.Provider
		want provider.Config
	}{
		"a real one": {real, provider.Config{
			Name: "acme", API: provider.APITasks, Profile: "captchaai", URL: "https://s.example.com", Key: "k1",
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
