//go:build !race

package deploy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"poold/internal/daemontest"
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

// TestProviderAccount replaces the account at a service by another one, with the steps of
// docs/operating.md. The orders in flight at the old account are collected, and all later orders go to
// the new account.
func TestProviderAccount(t *testing.T) {
	t.Parallel()
	first, second := service(t, 100*time.Millisecond), service(t, 100*time.Millisecond)
	redis := redistest.Server(t)
	config := func(accounts ...string) string {
		text := fmt.Sprintf(faultConfig, redis, "URL", "concurrency: 20") + "  login: {" + page + "login, depth: 4}\n"
		before, list, _ := strings.Cut(text, "providers: [")
		entry, after, _ := strings.Cut(list, "]\n")
		var entries []string
		for _, account := range accounts {
			name, url, _ := strings.Cut(account, "=")
			entries = append(entries, strings.NewReplacer("name: main", "name: "+name, "URL", url, "a-key", "key-of-"+
				name).Replace(entry))
		}
		return before + "providers: [" + strings.Join(entries, ", ") + "]\n" + after
	}
	w := watch(t, daemontest.Settings{Config: config("main=" + first)})
	w.wait("login", 4, 0)
	setFaults(t, first, notReady)
	var taken []string
	for range 3 {
		taken = append(taken, w.take("login").Token)
	}
	w.wait("login", 1, 3)

	w.Write(config("next="+second, "main="+first))
	testkit.Within(t, 20*time.Second, "the second account",
		func() bool { return w.Process.Output.Count("the configuration was applied") == 1 })
	for range 4 { // one ready token, and tokens of the new account
		taken = append(taken, w.take("login").Token)
	}
	w.wait("login", 1, 3)
	ended := blocks(t, "operating.md", "## Rotating keys")[0]
	env := []string{"POOLD_URL=" + w.URL, "POOLD_KEY=" + key, "PATH=" + filepath.Dir(daemontest.Binary(t)) + ":" +
		os.Getenv("PATH")}
	inFlight := func() string { return strings.TrimSpace(bash(t, t.TempDir(), ended, env)) }
	testkit.Equal(t, "orders in flight at the old account", inFlight(), "3")
	setFaults(t, first)
	testkit.Within(t, 20*time.Second, "the end of the old account's orders", func() bool { return inFlight() == "0" })
	w.wait("login", 4, 0)
	w.Write(config("next=" + second))
	testkit.Within(t, 20*time.Second, "the old account to be removed",
		func() bool { return w.Process.Output.Count("the configuration was applied") == 2 })
	for range 5 {
		taken = append(taken, w.take("login").Token)
	}
	w.wait("login", 4, 0)

	old, now := ledger(t, first).Totals, ledger(t, second).Totals
	if old.Submitted != 7 || old.Collected != 7 || old.Repeated != 0 {
		t.Errorf("the old account: %+v", old)
	}
	testkit.Equal(t, "tokens sold, of which 4 are ready", old.Collected+now.Collected, len(taken)+4)
	w.scrapeWith(`poold_orders_lost_total{target="login"} 0`, `poold_orders_failed_total{target="login"} 0`)
}
