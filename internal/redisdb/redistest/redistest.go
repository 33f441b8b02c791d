// Package redistest starts real Redis servers for tests: a single server, a cluster of three masters,
// or a master with sentinels. Each server uses free ports and a temporary folder of the test. The
// package also runs the embedded server in synctest bubbles (Bubble), and loses replies on purpose
// (Thief). Only tests import this package.
package redistest

import (
	"bytes"
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

// Server starts a redis-server without persistence and returns its address. The test fails if the
// machine has no redis-server. The strings in args are further command-line options.
func Server(t testing.TB, args ...string) string {
	t.Helper()
	addr, _ := start(t, "redis-server", args...)
	return addr
}

// Process starts a redis-server like Server. Process also returns the process, which a test may stop
// or kill.
func Process(t testing.TB, args ...string) (string, *os.Process) {
	t.Helper()
	return start(t, "redis-server", args...)
}

// Node is one server that a test may stop or kill.
type Node struct {
	Addr    string
	Process *os.Process

	options []string // of redis-server
}

// Restart starts the server again after a test has killed it. The server has its old address and folder.
func (n *Node) Restart(t testing.TB) {
	t.Helper()
	_, _ = n.Process.Wait()
	n.Process = launch(t, "redis-server", n.Addr, n.options)
}

// Cluster starts three masters that share all slots and returns their addresses.
func Cluster(t testing.TB) []string {
	t.Helper()
	var addrs []string
	for _, node := range ClusterOf(t, 0) {
		addrs = append(addrs, node.Addr)
	}
	return addrs
}

// ClusterOf starts three masters, each with this number of replicas. The strings in args are further
// options of every node. The first three nodes of the result are the masters.
func ClusterOf(t testing.TB, replicas int, args ...string) []Node {
	t.Helper()
	var nodes []Node
	create := []string{"--cluster", "create"}
	for range 3 * (1 + replicas) {
		node := EmptyNode(t, args...)
		nodes = append(nodes, node)
		create = append(create, node.Addr)
	}
	run(t, append(create, "--cluster-replicas", strconv.Itoa(replicas), "--cluster-yes")...)
	for i, node := range nodes {
		waitFor(t, "the cluster", func() bool {
			return strings.Contains(ask(t, node.Addr, "cluster", "info"), "cluster_state:ok") &&
				(i < 3 || strings.Contains(ask(t, node.Addr, "info", "replication"), "master_link_status:up"))
		})
	}
	return nodes
}

// EmptyNode starts a server that can become a node of a cluster. The strings in args are further
// options.
func EmptyNode(t testing.TB, args ...string) Node {
	t.Helper()
	options := append([]string{"--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--repl-diskless-sync-delay", "0",
		"--cluster-port", strconv.Itoa(testkit.FreePort(t))}, args...)
	return startNode(t, "redis-server", options...)
}

// MasterName is the name of the master that Sentinel starts.
const MasterName = "stock"

// Sentinel starts a master, a replica and three sentinels, and returns the addresses of the
// sentinels.
func Sentinel(t testing.TB) []string {
	t.Helper()
	var addrs []string
	for _, node := range SentinelNodes(t)[2:] {
		addrs = append(addrs, node.Addr)
	}
	return addrs
}

// SentinelNodes starts the same servers as Sentinel. It returns the master, the replica and the
// three sentinels, in this order.
func SentinelNodes(t testing.TB) []Node {
	t.Helper()
	master := startNode(t, "redis-server", "--repl-diskless-sync-delay", "0")
	host, port, err := net.SplitHostPort(master.Addr)
	if err != nil {
		t.Fatal(err)
	}
	nodes := []Node{master, startNode(t, "redis-server", "--replicaof", host+" "+port)}
	for range 3 {
		nodes = append(nodes, sentinelNode(t, fmt.Sprintf(
			"sentinel monitor %s %s %s 2\nsentinel down-after-milliseconds %s 1000\nsentinel failover-timeout %s 5000\n",
			MasterName, host, port, MasterName, MasterName)))
	}
	for _, node := range nodes[2:] {
		waitFor(t, "the sentinels", func() bool {
			return strings.Contains(ask(t, node.Addr, "info", "sentinel"), "slaves=1,sentinels=3")
		})
	}
	return nodes
}

// SentinelOf starts one sentinel with this text in its configuration file, and returns its address.
// Without a text the sentinel watches no master.
func SentinelOf(t testing.TB, text string) string {
	t.Helper()
	return sentinelNode(t, text).Addr
}

func sentinelNode(t testing.TB, text string) Node {
	t.Helper()
	config := filepath.Join(t.TempDir(), "sentinel.conf")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return startNode(t, "redis-sentinel", config)
}

// start is startNode for a server that the test does not restart.
func start(t testing.TB, program string, args ...string) (string, *os.Process) {
	t.Helper()
	node := startNode(t, program, args...)
	return node.Addr, node.Process
}

// startNode runs one server until the test ends.
func startNode(t testing.TB, program string, args ...string) Node {
	t.Helper()
	port := strconv.Itoa(testkit.FreePort(t))
	options := []string{"--port", port, "--bind", "127.0.0.1", "--dir", t.TempDir(), "--daemonize", "no"}
	if program == "redis-server" {
		options = append(options, "--save", "", "--appendonly", "no")
		options = append(options, args...)
	} else {
		options = append(args, options...) // a sentinel's first argument must be its configuration file
	}
	addr := net.JoinHostPort("127.0.0.1", port)
	return Node{addr, launch(t, program, addr, options), options}
}

// launch starts a program and waits until it replies at the address.
func launch(t testing.TB, program, addr string, options []string) *os.Process {
	t.Helper()
	var output bytes.Buffer
	command := exec.Command(program, options...)
	command.Stdout, command.Stderr = &output, &output
	if err := command.Start(); err != nil {
		t.Fatalf("starting %s (Debian: apt-get install redis-server redis-sentinel): %v", program, err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	waitFor(t, program, func() bool {
		answer := ask(t, addr, "ping") // the replies NOAUTH and LOADING also mean that the server is up
		return strings.Contains(answer, "PONG") || strings.Contains(answer, "NOAUTH") || strings.Contains(answer, "LOADING")
	})
	return command.Process
}

// FreeAddress returns an address of this machine on which no program listens.
func FreeAddress(t testing.TB) string {
	t.Helper()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(testkit.FreePort(t)))
}

// ask sends one command to a server by redis-cli and returns the output.
func ask(t testing.TB, addr string, args ...string) string {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	output, _ := exec.Command("redis-cli", append([]string{"-h", host, "-p", port}, args...)...).CombinedOutput()
	return string(output)
}

func run(t testing.TB, args ...string) {
	t.Helper()
	if output, err := exec.Command("redis-cli", args...).CombinedOutput(); err != nil {
		t.Fatalf("redis-cli %s: %v\n%s", strings.Join(args, " "), err, output)
	}
}

func waitFor(t testing.TB, what string, ready func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		if ready() {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("%s did not come up within 20 s", what)
}
