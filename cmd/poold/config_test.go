package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"poold/internal/testkit"
)

// A pipe replaces the configuration file for a while, and again during the stop. Neither a reload
// nor the stop waits until a program writes to the pipe.
func TestAPipeInPlaceOfTheFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pools.yaml")
	text := strings.Replace(serverless, "depth: 1", "depth: 2", 1)
	writeFile(t, path, serverless)
	p := startPoold(t, path, "")
	pipe := func() {
		t.Helper()
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
		testkit.Within(t, 20*time.Second, "the status to tell of the pipe", func() bool { return !configOK(t, p) })
	}
	pipe()
	response, err := http.Post(p.url+"/-/reload", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("POST /-/reload: %s", response.Status)
	}
	p.signal(syscall.SIGHUP)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	writeFile(t, path, text)
	testkit.Within(t, 20*time.Second, "the new file to be used", func() bool { return configOK(t, p) && p.target("login").Depth == 2 })
	pipe()
	if err := p.stop(); err != nil {
		t.Error(err)
	}
	if !strings.Contains(p.output.String(), path+": the file cannot be read: it is not a regular file") {
		t.Errorf("the log does not say what is wrong:\n%s", p.output.String())
	}
}

// serverless is a configuration file whose daemon needs no other servers.
const serverless = `
providers: [{name: simulated, protocol: simulated, concurrency: 5}]
targets:
  login: {type: turnstile, sitekey: 1x00000000000000000000AA, pageurl: "https://example.com/", owner: qa@example.com, depth: 1}
`
