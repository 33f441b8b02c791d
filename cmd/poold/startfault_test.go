package main

import (
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"poold/internal/testkit"
)

// A file that passes the checks can still have a backend that poold cannot open. Then the start and
// `poold history init` end with an error that names the setting.
func TestAStartEndsIfABackendCannotBeOpened(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "pools.yaml")
	t.Setenv("AWS_CA_BUNDLE", dir+"/none.pem")
	const postgres = `"postgres://u@127.0.0.1:1/d?sslmode=verify-full&sslrootcert=/none.pem"`
	const noFile = "postgres address: it names a file that cannot be read: open /none.pem: no such file"
	for sections, want := range map[string]string{
		"dedup: {backend: postgres, url: " + postgres + "}\n":   "dedup.url: " + noFile,
		"history: {backend: postgres, url: " + postgres + "}\n": "history.url: " + noFile,
		"history: {backend: dynamodb, table: poold-test, region: eu-west-1}\n": "history: dynamodb: AWS's configuration, " +
			"in the environment or in its shared files, cannot be read",
	} {
		writeFile(t, file, sections+serverless)
		for _, command := range []string{"serve --listen 127.0.0.1:0", "history init", "check"} {
			code, stdout, stderr := runCommand(t, nil, append(strings.Fields(command), "--config", file)...)
			if code != 1 || stdout != "" || !strings.Contains(stderr, want) {
				t.Errorf("%s with %s exit %d, want 1 and %q\nstdout: %s\nstderr: %s", command, sections, code, want, stdout,
					stderr)
			}
		}
	}
}

// The daemon starts, and a reload is applied, even if the folder for dead letters cannot be used, which no hand-out
// needs. It logs the error.
func TestWithoutAFolderForDeadLetters(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "pools.yaml")
	writeFile(t, dir+"/file", "not a folder")
	letters := "dead_letters: {dir: " + dir + "/file/letters}\n"
	writeFile(t, file, letters+serverless)
	p := startPoold(t, file, "")
	testkit.Within(t, 60*time.Second, "a token", func() bool { return p.target("login").Fresh == 1 })
	called := strings.Replace(serverless, "name: simulated, protocol: simulated, concurrency: 5",
		"name: service, service: 2captcha, key: 0123456789abcdef0123456789abcdef, url: 'http://127.0.0.1:1', callback_url: '"+
			p.URL+"'", 1)
	writeFile(t, file, letters+strings.Replace(called, "depth: 1", "depth: 2", 1))
	p.Signal(syscall.SIGHUP)
	testkit.Within(t, 20*time.Second, "the reload to be applied", func() bool {
		return strings.Contains(p.Output.String(), "callbacks cannot be kept while redis is away") &&
			p.target("login").Depth == 2
	})
	if _, code, err := p.take(t.Context(), http.DefaultClient, "login", ""); err != nil || code != http.StatusOK {
		t.Errorf("a take after the reload: %d, %v", code, err)
	}
}
