//go:build !race

package deploy_test

import (
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"poold/internal/daemontest"
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

// expiries returns each key of poold at the servers, with the time that the key has left to live.
// Beats and other keys of a process are omitted, because they change or expire within seconds.
func expiries(t *testing.T, servers ...string) map[string]time.Duration {
	t.Helper()
	all := map[string]time.Duration{}
	for _, server := range servers {
		for _, key := range keysOf(t, server, "*captcha*:*") {
			left, err := strconv.Atoi(redistest.Do(t, server, "PTTL", key))
			testkit.NoError(t, err)
			if left == -1 || left > int(time.Minute.Milliseconds()) { // -2: it expired meanwhile
				all[key] = time.Duration(left) * time.Millisecond
			}
		}
	}
	return all
}

// sameExpiries reports a key that was lost, or whose time to live differs.
func sameExpiries(t *testing.T, before, after map[string]time.Duration, passed time.Duration) {
	t.Helper()
	testkit.AtLeast(t, "keys", len(before), 20)
	for key, left := range before {
		now, is := after[key]
		if !is && left >= 0 && left < passed+time.Minute+time.Second {
			continue // on a busy machine it has expired, or lives for less than the minute that expiries lists
		}
		if difference := left - now; !is || difference < -time.Second || difference > passed+time.Second {
			t.Errorf("%s had %v left to live, and has %v (%t)", key, left, now, is)
		}
	}
}

// TestMoving moves the data of a running poold from one Redis to sentinels and then to a cluster, with
// the commands of docs/redis.md. Tokens, orders in flight, a pause, a budget and the history survive.
// Finally, a backup of the cluster is restored into another cluster.
func TestMoving(t *testing.T) {
	t.Parallel()
	first, second := redistest.Server(t, noDelay...), redistest.Server(t, noDelay...)
	url := service(t, 100*time.Millisecond)
	config := func(section string) daemontest.Settings {
		return daemontest.Settings{Config: fmt.Sprintf(strings.Replace(faultConfig, `{url: "redis://%s"}`, "%s", 1), section,
			url, "concurrency: 20") +
			"  login: {" + page + "login, depth: 4, budget: {per_day: 100}}\n" +
			"  other: {" + page + "other, depth: 3}\n  third: {" + page + "third, depth: 2}\n"}
	}
	w := watch(t, config(`{url: "redis://`+first+`"}`))
	w.wait("login", 4, 0)
	w.wait("other", 3, 0)
	w.wait("third", 2, 0)
	w.call(http.StatusNoContent, "POST", "/pool/third/pause", `{"reason": "the page changes"}`)
	setFaults(t, url, notReady)
	taken := []string{w.take("login").Token, w.take("other").Token, w.take("third").Token}
	w.kept("single")

	section, sentinel := toSentinels(t, first, second)
	old := w
	w = watch(t, config(section))
	w.kept("sentinel")
	old.kept("single") // beside the new replica
	old.stop()
	bash(t, t.TempDir(), blocks(t, "redis.md", "## Moving to sentinels")[1], nil, "10.0.0.11:26379", sentinel,
		"10.0.0.12:6379", second)
	testkit.Within(t, 20*time.Second, "poold to use the new master", func() bool {
		status, _, err := w.Try("POST", "/pool/third/pause", `{"reason": "the page changes"}`)
		return err == nil && status == http.StatusNoContent
	})
	w.kept("sentinel")
	w.stop()

	section, nodes := toCluster(t, second)
	w = watch(t, config(section))
	w.kept("cluster")
	setFaults(t, url)
	w.wait("login", 4, 0)
	for _, target := range []string{"login", "login", "login", "login", "other", "other", "other", "third"} {
		taken = append(taken, w.take(target).Token)
	}
	slices.Sort(taken)
	testkit.Equal(t, "different tokens", len(slices.Compact(slices.Clone(taken))), len(taken))
	w.stop()
	restoreCluster(t, nodes)
}

// noDelay makes a master send its data to a replica at once.
var noDelay = []string{"--repl-diskless-sync-delay", "0"}

// kept fails the test unless the data of TestMoving are in Redis.
func (w *watched) kept(mode string) {
	w.Helper()
	w.wait("login", 3, 1)
	w.wait("other", 2, 1)
	if s := w.state("third"); s.State != "paused" || !strings.Contains(s.Reason, "the page changes") || s.Fresh != 1 {
		w.Errorf("%s: the paused target: %+v", mode, s)
	}
	testkit.Equal(w.TB, mode+": solves of the budget", w.state("login").Budget.Day.Used, 5)
	testkit.Within(w.TB, 20*time.Second, "the history",
		func() bool { return w.solved("login")+w.solved("other")+w.solved("third") == 9 })
	if status := w.call(http.StatusOK, "GET", "/status.json", ""); !strings.Contains(status, `"mode":"`+mode+`"`) {
		w.Errorf("the mode of Redis is not %s", mode)
	}
}

func (w *watched) stop() {
	w.Helper()
	testkit.NoError(w, w.Stop())
}

// section returns the section `redis` on a page of the docs that has the text, with other addresses.
func section(t *testing.T, has string, replaced ...string) string {
	t.Helper()
	for _, match := range found("(?m)^ *redis: ({url: .*})$", read(t, "../docs/redis.md")) {
		if strings.Contains(match, has) {
			return strings.NewReplacer(replaced...).Replace(match)
		}
	}
	t.Fatalf("docs/redis.md has no section with %s", has)
	return ""
}

// toSentinels lets three sentinels watch the first server, whose replica is the second one. It returns
// the section `redis` and the address of a sentinel.
func toSentinels(t *testing.T, first, second string) (redis, sentinel string) {
	t.Helper()
	addresses := []string{"10.0.0.11:6379", first, addressOf("10.0.0.11:6379"), addressOf(first), "10.0.0.12:6379", second}
	var sentinels []string
	for i := range 3 {
		sentinel = redistest.SentinelOf(t, "").Addr
		sentinels = append(sentinels, fmt.Sprintf("10.0.0.%d:26379", 11+i), sentinel)
	}
	bash(t, t.TempDir(), blocks(t, "redis.md", "## Moving to sentinels")[0], nil, append(addresses[2:], sentinels...)...)
	return section(t, "sentinel_master", sentinels...), sentinel
}

// emptyCluster makes a cluster of three empty servers. It returns their addresses, and pairs of an
// address in the docs and a server's address.
func emptyCluster(t *testing.T) (nodes, replaced []string) {
	t.Helper()
	for i := range 3 {
		nodes = append(nodes, redistest.EmptyNode(t).Addr)
		replaced = append(replaced, fmt.Sprintf("10.0.0.%d:6379", 21+i), nodes[i])
	}
	bash(t, t.TempDir(), blocks(t, "redis.md", "## Moving to a cluster")[0], nil, replaced...)
	for _, node := range nodes {
		testkit.Within(t, 20*time.Second, "the cluster", func() bool {
			return strings.Contains(redistest.Do(t, node, "CLUSTER", "INFO"), "cluster_state:ok")
		})
	}
	return nodes, replaced
}

// toCluster copies the data of a server into a cluster. It returns the section `redis` and the
// addresses of the nodes.
func toCluster(t *testing.T, from string) (redis string, nodes []string) {
	t.Helper()
	nodes, replaced := emptyCluster(t)
	began, before := time.Now(), expiries(t, from)
	output := bash(t, t.TempDir(), blocks(t, "redis.md", "## Moving to a cluster")[1], nil, "10.0.0.21:6379", nodes[0],
		"10.0.0.11:6379", from)
	sameExpiries(t, before, expiries(t, nodes...), time.Since(began))
	testkit.Equal(t, "the copy says how many keys there are: "+output, strings.Contains(output, "keys in 3 masters"), true)
	return section(t, "10.0.0.21", replaced...), nodes
}

// restoreCluster makes a backup of a cluster and restores it into another cluster.
func restoreCluster(t *testing.T, nodes []string) {
	t.Helper()
	folder := t.TempDir()
	began, before := time.Now(), expiries(t, nodes...)
	bash(t, folder, blocks(t, "redis.md", "## Backing up")[1], nil, "10.0.0.21:6379", nodes[0])
	files, err := filepath.Glob(filepath.Join(folder, "backup", "*.rdb"))
	if err != nil || len(files) != len(nodes) {
		t.Fatal(files, err)
	}
	nodes, _ = emptyCluster(t)
	restore := blocks(t, "redis.md", "## Restoring")
	for _, file := range files {
		port := strconv.Itoa(testkit.FreePort(t))
		bash(t, filepath.Dir(file), restore[0], nil, "6390", port, "poold.rdb", filepath.Base(file))
		bash(t, folder, restore[2], nil, "6390", port, "10.0.0.21:6379", nodes[0])
	}
	maps.DeleteFunc(before, func(key string, _ time.Duration) bool {
		// some may have an order in flight
		deleted := []string{"tokens", "tickets", "order", "deadlines", "owned", "permits", "inflight", "due"}
		return slices.ContainsFunc(deleted, func(kind string) bool { return strings.HasPrefix(key, "{captcha}:"+kind) })
	})
	sameExpiries(t, before, expiries(t, nodes...), time.Since(began))
	for _, node := range nodes {
		testkit.Equal(t, "tokens that the restore kept", len(keysOf(t, node, "{captcha}:tokens:*")), 0)
	}
}
