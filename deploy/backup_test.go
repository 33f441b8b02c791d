//go:build !race

package deploy_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/daemontest"
	"poold/internal/provider/simulatedtest"
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

// notReady holds the orders in flight: each poll says that the task is not solved yet.
var notReady = simulatedtest.Fault{On: simulatedtest.Poll, Kind: simulatedtest.Code, Code: "CAPCHA_NOT_READY"}

// state is what GET /pool/TARGET says.
type state struct {
	State, Reason  string
	Fresh, Expired int
	InFlight       int `json:"in_flight"`
	BoughtInFlight int `json:"bought_in_flight"`
	Budget         struct{ Day struct{ Used int } }
}

func (w *watched) state(target string) (s state) {
	w.Helper()
	testkit.NoError(w, json.Unmarshal([]byte(w.call(http.StatusOK, "GET", "/pool/"+target, "")), &s))
	return s
}

// wait waits until a target has these numbers of ready tokens and of orders in flight.
func (w *watched) wait(target string, fresh, inFlight int) {
	w.Helper()
	testkit.Within(w.TB, 20*time.Second, fmt.Sprintf("%d tokens and %d orders of %s", fresh, inFlight, target),
		func() bool {
			s := w.state(target)
			return s.Fresh == fresh && s.BoughtInFlight == inFlight
		})
}

// solved returns how many solved orders of the target the history has.
func (w *watched) solved(target string) int {
	w.Helper()
	var page struct{ Records []struct{ ID string } }
	testkit.NoError(w, json.Unmarshal([]byte(
		w.call(http.StatusOK, "GET", "/history/orders?status=solved&limit=1000&target="+target, "")), &page))
	return len(page.Records)
}

// keysOf returns the names of the keys of Redis that match the pattern.
func keysOf(t testing.TB, address, pattern string) []string {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: address})
	defer func() { _ = client.Close() }()
	keys, err := client.Keys(t.Context(), pattern).Result()
	testkit.NoError(t, err)
	return keys
}

// addressOf splits an address into the words of the command REPLICAOF.
func addressOf(address string) string { return strings.Replace(address, ":", " ", 1) }

// TestRestore makes a backup of Redis, destroys Redis, and restores the backup with the commands of
// docs/redis.md. The backup has tokens and orders in flight. Callers take all of these tokens after the
// backup, and get none of them again after the restore. The history and a pause are restored.
func TestRestore(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	server, process := redistest.Process(t, append(noDelay, "--appendonly", "yes")...)
	url := service(t, 100*time.Millisecond)
	config := func(server string) string {
		return fmt.Sprintf(faultConfig, server, url, "concurrency: 20") +
			"  login: {" + page + "login, depth: 4, budget: {per_day: 100}}\n  other: {" + page + "other, depth: 1}\n"
	}
	w := watch(t, daemontest.Settings{Config: config(server)})
	w.wait("login", 4, 0)
	w.call(http.StatusNoContent, "POST", "/pool/other/pause", `{"reason": "the page changes"}`)
	testkit.Within(t, 20*time.Second, "the history", func() bool { return w.solved("login") == 4 })

	// Two tokens are taken, and the orders that replace them are in flight during the backup.
	setFaults(t, url, notReady)
	taken := []string{w.take("login").Token, w.take("login").Token}
	w.wait("login", 2, 2)
	bash(t, folder, blocks(t, "redis.md", "## Backing up")[0], nil, "10.0.0.11:6379", server)
	saved := w.state("login")

	setFaults(t, url)
	for range 6 { // the two ready tokens, the two in flight, and later ones
		taken = append(taken, w.take("login").Token)
	}
	w.Signal(syscall.SIGKILL)
	if err := <-w.Ended; err == nil {
		t.Fatal("a killed poold ends without an error")
	}
	testkit.NoError(t, process.Kill())

	server = redistest.Server(t, "--appendonly", "yes")
	redistest.Do(t, server, "SET", "{captcha}:other", "of a former life")
	port := fmt.Sprint(testkit.FreePort(t))
	restore := blocks(t, "redis.md", "## Restoring")
	start, clean, _ := strings.Cut(restore[0], "for kind")
	bash(t, folder, start, nil, "6390", port, "--daemonize yes", "--daemonize yes --repl-diskless-sync-delay 0")
	temporary := "127.0.0.1:" + port
	var tokens string
	for _, token := range keysOf(t, temporary, "{captcha}:token:*") {
		tokens += redistest.Do(t, temporary, "GET", token)
	}
	testkit.Equal(t, "the backup has a token that a caller took afterwards", strings.Contains(tokens, taken[2]), true)
	testkit.AtLeast(t, "orders in flight in the backup", len(keysOf(t, temporary, "{captcha}:owned:*")), 1)
	bash(t, folder, "for kind"+clean, nil, "6390", port)
	bash(t, folder, restore[1], nil, "6390", port, "10.0.0.11:6379", server)

	w = watch(t, daemontest.Settings{Config: config(server)})
	w.wait("login", 4, 0)
	for range 8 {
		taken = append(taken, w.take("login").Token)
	}
	slices.Sort(taken)
	testkit.Equal(t, "different tokens", len(slices.Compact(slices.Clone(taken))), len(taken))
	testkit.Equal(t, "tokens collected again", ledger(t, url).Totals.Repeated, 0)
	testkit.Within(t, 20*time.Second, fmt.Sprintf("12 solves more than the %d of the backup", saved.Budget.Day.Used),
		func() bool {
			s := w.state("login")
			return s.Fresh == 4 && s.BoughtInFlight == 0 && s.Budget.Day.Used == saved.Budget.Day.Used+12
		})
	if s := w.state("other"); s.State != "paused" || !strings.Contains(s.Reason, "the page changes") {
		t.Errorf("the paused target: %+v", s)
	}
	testkit.Within(t, 20*time.Second, "the history", func() bool { return w.solved("login") == 16 })
	testkit.Equal(t, "other data that the restore kept", redistest.Do(t, server, "EXISTS", "{captcha}:other"), "0")
}
