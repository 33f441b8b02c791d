package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"poold/internal/cli"
	"poold/internal/postgres/postgrestest"
	"poold/internal/replicas"
	"poold/internal/targets/reload"
	"poold/internal/testkit"
)

// daemonOf builds a daemon from the text of a configuration file, but does not run it.
func daemonOf(t *testing.T, text string, output *testkit.Log) *daemon {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pools.yaml")
	writeFile(t, path, text)
	log := slog.New(slog.NewTextHandler(output, nil))
	file := reload.NewFile(path, func(string) (string, bool) { return "", false }, log)
	file.Listen = "127.0.0.1:0"
	set, err := file.Load()
	testkit.NoError(t, err)
	d, err := newDaemon(t.Context(), file, set, replicas.New(version), false, log, new(cli.LogWriter))
	testkit.NoError(t, err)
	return d
}

// If a part fails, the daemon stops in the same stages as after a signal, and names this part. The test
// is not parallel, because the server of another test could get the port of its Redis, which ends.
func TestAFailedPartStopsTheDaemon(t *testing.T) {
	var output testkit.Log
	d := daemonOf(t, serverless, &output)
	redis := d.embedded.Addr()
	testkit.NoError(t, d.listener.Close())
	err := d.run(t.Context(), nil)
	if err == nil || !strings.HasPrefix(err.Error(), "serving: ") {
		t.Errorf("the port was gone, and run says %v", err)
	}
	if text := output.String(); !strings.Contains(text, "msg=stopping") || !strings.Contains(text, "msg=stopped") {
		t.Errorf("it did not stop in stages:\n%s", text)
	}
	if conn, err := net.Dial("tcp", redis); err == nil {
		_ = conn.Close()
		t.Error("the embedded Redis is still there")
	}
}

func allStacks() string {
	stacks := make([]byte, 1<<20)
	for {
		if n := runtime.Stack(stacks, true); n < len(stacks) {
			return string(stacks[:n])
		}
		stacks = make([]byte, 2*len(stacks))
	}
}

// TestEachPartRunsAndStops checks that the daemon starts each part of the table and that a stop ends
// each part. A part runs while a goroutine is in its function. The test is not parallel, because all
// goroutines of the process must belong to one daemon.
func TestEachPartRunsAndStops(t *testing.T) {
	server := postgrestest.Start(t)
	parts := []struct{ duty, function string }{
		{"watches Redis", "redisdb.(*DB).Run("},
		{"beats, adopts and ends orders", "purchase.(*Buyer).Run("},
		{"expires keys of the embedded Redis", "poold.(*embeddedRedis).run("},
		{"deletes old claims", "claims.(*Postgres).Run("},
		{"deletes old records", "pgstore.(*Tables).Run("},
		{"sends the history", "history.(*Sender).Run("},
		{"decides about targets", "refill.(*Manager).Run("},
		{"buys pictures and shared solves", "solve.(*Solver).Run("},
		{"reloads a saved file", "reload.(*File).Run("},
		{"reloads on SIGHUP", "poold.(*daemon).reloadOnHangup("},
		{"serves HTTP", "net/http.(*Server).Serve("},
	}
	var output testkit.Log
	d := daemonOf(t, fmt.Sprintf("dedup: {backend: postgres, url: %q}\nhistory: {backend: postgres, url: %q}\n%s",
		server.Database(t), server.Database(t), serverless), &output)
	before := allStacks()
	for _, part := range parts {
		if strings.Contains(before, part.function) {
			t.Errorf("before the start a goroutine already %s (%s)", part.duty, part.function)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- d.run(ctx, nil) }()
	for _, part := range parts {
		testkit.Within(t, 20*time.Second, "a goroutine that "+part.duty+", in "+part.function, func() bool {
			return strings.Contains(allStacks(), part.function)
		})
	}
	stop()
	testkit.NoError(t, testkit.Receive(t, 20*time.Second, "the end of the daemon", ended))
	after := allStacks()
	for _, part := range parts {
		if strings.Contains(after, part.function) {
			t.Errorf("after the stop a goroutine still %s (%s)", part.duty, part.function)
		}
	}
}
