package main

import (
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"poold/internal/targets/reload"
	"poold/internal/testkit"
)

// A part that fails ends the daemon, in the same stages as a signal does, and the
// daemon says which part it was. It runs alone: the port of the Redis that is gone is free
// for the servers of other tests.
func TestAPartThatFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pools.yaml")
	writeFile(t, path, serverless)
	var output testkit.Log
	log := slog.New(slog.NewTextHandler(&output, nil))
	file := reload.NewFile(path, func(string) (string, bool) { return "", false }, log)
	file.OverrideListen("127.0.0.1:0")
	set, err := file.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d, err := newDaemon(t.Context(), file, set, log)
	if err != nil {
		t.Fatal(err)
	}
	redis := d.embedded.Addr()
	if err := d.listener.Close(); err != nil {
		t.Fatal(err)
	}
	err = d.run(t.Context(), nil)
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
