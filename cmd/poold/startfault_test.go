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
	const table = "history: {backend: dynamodb, table: poold-test, region: eu-west-1}\n"
	for _, c := range []struct {
		name, sections string
		commands       []string
		want           string
	}{
		{"claims", "dedup: {backend: postgres, url: " + postgres + "}\n", []string{"serve", "history init", "check"},
			"dedup.url: postgres address: it names a file that cannot be read: open /none.pem: no such file"},
		{"history in PostgreSQL", "history: {backend: postgres, url: " + postgres + "}\n",
			[]string{"serve", "history init", "check"},
			"history.url: postgres address: it names a file that cannot be read: open /none.pem: no such file"},
		{"history in DynamoDB", table, []string{"serve", "history init", "check"},
			"history: dynamodb: AWS's configuration, in the environment or in its shared files, cannot be read"},
	} {
		writeFile(t, file, c.sections+serverless)
		for _, command := range c.commands {
			args := append(strings.Fields(command), "--config", file)
			if command == "serve" {
				args = append(args, "--listen", "127.0.0.1:0")
			}
			code, stdout, stderr := runCommand(t, nil, args...)
			if code != 1 || stdout != "" || !strings.Contains(stderr, c.want) {
				t.Errorf("%s, %s: exit %d, want 1 and %q\nstdout: %s\nstderr: %s", c.name, command, code, c.want, stdout, stderr)
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
