// Package redistest starts real Redis servers for tests: a single server, a cluster of three masters,
// or a master with sentinels. Each server uses free ports and a temporary folder of the test. The
// package also runs the embedded server in synctest bubbles (Bubble). Only tests import this package.
package redistest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"poold/internal/testkit"
)

// Node is one server that a test may stop or kill.
type Node struct {
	Addr    string
	Process *os.Process
}

// Server starts a redis-server without persistence and returns its address. The test fails if the
// machine has no redis-server. The strings in args are further command-line options.
func Server(t testing.TB, args ...string) string {
	t.Helper()
	return startNode(t, "redis-server", args...).Addr
}

// Process starts a redis-server like Server. Process also returns the process, which a test may stop
// or kill.
func Process(t testing.TB, args ...string) (string, *os.Process) {
	t.Helper()
	node := startNode(t, "redis-server", args...)
	return node.Addr, node.Process
}

// Cluster starts three masters that share all slots and returns their addresses.
func Cluster(t testing.TB) []string {
	t.Helper()
	return strings.Split(strings.ReplaceAll(urls(ClusterOf(t)), "redis://", ""), ",")
}

// ClusterOf starts three masters. The strings in args are further options of every node.
func ClusterOf(t testing.TB, args ...string) []Node {
	t.Helper()
	nodes := []Node{EmptyNode(t, args...), EmptyNode(t, args...), EmptyNode(t, args...)}
	created := ask(t, nodes[0].Addr, "--cluster", "create", nodes[0].Addr, nodes[1].Addr, nodes[2].Addr, "--cluster-yes")
	for _, node := range nodes {
		testkit.Within(t, 20*time.Second, "the cluster: "+created, func() bool {
			return strings.Contains(ask(t, node.Addr, "cluster", "info"), "cluster_state:ok")
		})
	}
	return nodes
}

// EmptyNode starts a server that can become a node of a cluster. The strings in args are further
// options.
func EmptyNode(t testing.TB, args ...string) Node {
	t.Helper()
	return startNode(t, "redis-server", append([]string{"--cluster-enabled", "yes", "--cluster-node-timeout", "1000",
		"--repl-diskless-sync-delay", "0", "--cluster-port", strconv.Itoa(testkit.FreePort(t))}, args...)...)
}

// urls joins the addresses of nodes.
func urls(nodes []Node) string {
	text := ""
	for _, node := range nodes {
		text += ",redis://" + node.Addr
	}
	return text[1:]
}

// MasterName is the name of the master that SentinelNodes starts.
const MasterName = "stock"

// SentinelNodes starts a master, a replica and three sentinels, and returns them in this order.
func SentinelNodes(t testing.TB) []Node {
	t.Helper()
	master := startNode(t, "redis-server", "--repl-diskless-sync-delay", "0")
	address := strings.Replace(master.Addr, ":", " ", 1)
	nodes := []Node{master, startNode(t, "redis-server", "--replicaof", address)}
	for range 3 {
		nodes = append(nodes, SentinelOf(t, fmt.Sprintf("sentinel monitor %s %s 2\n"+
			"sentinel down-after-milliseconds %[1]s 1000\nsentinel failover-timeout %[1]s 5000\n", MasterName, address)))
	}
	for _, node := range nodes[2:] {
		testkit.Within(t, 20*time.Second, "the sentinels", func() bool {
			return strings.Contains(ask(t, node.Addr, "info", "sentinel"), "slaves=1,sentinels=3")
		})
	}
	return nodes
}

// SentinelOf starts one sentinel with this text in its configuration file. Without a text the sentinel watches no
// master.
func SentinelOf(t testing.TB, text string) Node {
	t.Helper()
	config := filepath.Join(t.TempDir(), "sentinel.conf")
	testkit.NoError(t, os.WriteFile(config, []byte(text), 0o600))
	return startNode(t, "redis-sentinel", config)
}

// startNode runs one server until the test ends. It waits until the server replies.
func startNode(t testing.TB, program string, args ...string) Node {
	t.Helper()
	addr := FreeAddress(t)
	options := []string{"--port", addr[strings.Index(addr, ":")+1:], "--bind", "127.0.0.1", "--dir", t.TempDir()}
	if program == "redis-server" {
		options = append(append(options, "--save", "", "--appendonly", "no"), args...)
	} else {
		options = append(args, options...) // a sentinel's first argument must be its configuration file
	}
	command := exec.Command(program, options...)
	if command.Err != nil {
		t.Fatalf("Debian: apt-get install redis-server redis-sentinel: %v", command.Err)
	}
	testkit.Daemon(t, command, func() bool {
		answer := ask(t, addr, "ping") // the replies NOAUTH and LOADING also mean that the server is up
		return strings.Contains(answer, "PONG") || strings.Contains(answer, "NOAUTH") || strings.Contains(answer, "LOADING")
	})
	return Node{addr, command.Process}
}

// FreeAddress returns an address of this machine on which no program listens.
func FreeAddress(t testing.TB) string {
	t.Helper()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(testkit.FreePort(t)))
}

// ask sends one command to a server by redis-cli and returns the output.
func ask(t testing.TB, addr string, args ...string) string {
	t.Helper()
	output, _ := exec.Command("redis-cli", append([]string{"-u", "redis://" + addr}, args...)...).CombinedOutput()
	return string(output)
}
