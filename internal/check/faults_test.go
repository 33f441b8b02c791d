package check_test

import (
	"context"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"poold/internal/check"
	"poold/internal/cli"
	"poold/internal/history/dynamotest"
	"poold/internal/provider/simulatedtest"
	"poold/internal/testkit"
)

const target = "targets:\n  a: {type: turnstile, sitekey: x, pageurl: 'https://example.com/', owner: q, depth: 0, paused: true}\n"

// run runs `poold check` on a file with this text.
func run(ctx context.Context, t *testing.T, out io.Writer, text string, args ...string) error {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pools.yaml")
	testkit.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	command := check.Command(&cli.Console{Lookup: func(string) (string, bool) { return "", false }, Stdout: out, Stderr: out})
	command.SilenceErrors, command.SilenceUsage = true, true
	command.SetArgs(append(args, "--config", path))
	return command.ExecuteContext(ctx)
}

// full is a writer that fails in the same way as a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// A check that cannot print its result fails, even if the file is valid.
func TestCheckFailsIfItCannotPrint(t *testing.T) {
	valid := "redis: {url: embedded}\nproviders: [{name: own, protocol: simulated}]\n" + target
	for name, text := range map[string]string{"valid": valid, "invalid": "budget: 5\n" + valid} {
		if err := run(t.Context(), t, full{}, text); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What check accepts, starts: it knows the rules of the stores' libraries, too.
func TestCheckOpensTheStores(t *testing.T) {
	dynamotest.NoCredentials(t.Setenv)
	for section, says := range map[string]string{
		"dedup: {backend: postgres, url: 'postgres://u:canary@h/d?sslmode=no-such'}\n": "dedup.url: postgres address: must be postgres://",
		"history: {backend: dynamodb}\n":                                               "history: dynamodb: no region is known",
	} {
		var out strings.Builder
		err := run(t.Context(), t, &out, "redis: {url: embedded}\nproviders: [{name: own, protocol: simulated}]\n"+section+target)
		if err == nil || !strings.HasPrefix(err.Error(), says) || strings.Contains(err.Error()+out.String(), "canary") {
			t.Errorf("%s%v\n%s", section, err, out.String())
		}
	}
}

// If a service cannot be used, the command prints one line about this fault,
// without secrets. It still tries the other services.
func TestLiveTriesAllServices(t *testing.T) {
	dynamotest.NoCredentials(t.Setenv)
	service := simulatedtest.New(simulatedtest.Options{Threads: 3, Faults: []simulatedtest.Fault{{On: simulatedtest.Threads, Kind: simulatedtest.Status, Status: 500}}})
	defer service.Close()
	server := httptest.NewServer(service)
	defer server.Close()
	var out strings.Builder
	err := run(t.Context(), t, &out, "redis: {url: 'redis://:canary@127.0.0.1:1'}\n"+
		"dedup: {backend: postgres, url: 'postgres://u:canary@127.0.0.1:1/d'}\nhistory: {backend: dynamodb, region: eu-west-1, endpoint: 'http://127.0.0.1:1'}\n"+
		"providers: [{name: acme, service: captchaai, url: '"+server.URL+"', key: canary4711canary4711}]\n"+target, "--live")
	if err == nil || err.Error() != "live checks failed: 4" {
		t.Errorf("the error is %v", err)
	}
	for _, line := range []string{
		"error: redis: ",
		"error: postgres of dedup.url: postgres does not serve: ",
		"error: dynamodb of history: looking at the table: ",
		"error: provider acme: reading the threads: ",
	} {
		if !strings.Contains(out.String(), "\n"+line) {
			t.Errorf("no line %q", line)
		}
	}
	if t.Failed() || strings.Contains(out.String(), "canary") {
		t.Error(out.String())
	}
}
