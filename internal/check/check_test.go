package check

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"poold/internal/cli"
	"poold/internal/testkit"
)

// runCheck runs `poold check` on a file with this text. In the output it replaces the file's path by
// FILE.
func runCheck(t *testing.T, text string, flags ...string) (printed string, err error) {
	t.Helper()
	path, out := filepath.Join(t.TempDir(), "pools.yaml"), new(strings.Builder)
	err = runCheckOf(t, path, text, out, flags...)
	return strings.ReplaceAll(out.String(), path, "FILE"), err
}

func runCheckOf(t *testing.T, path, text string, out io.Writer, flags ...string) error {
	t.Helper()
	testkit.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	command := Command(&cli.Console{Lookup: func(string) (string, bool) { return "", false }, Stdout: out, Stderr: out})
	command.SilenceErrors, command.SilenceUsage = true, true
	command.SetArgs(append(flags, "--config", path))
	return command.ExecuteContext(t.Context())
}

// full is a writer that fails in the same way as a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// A check that cannot print its result fails, even if the file is valid.
func TestCheckFailsIfItCannotPrint(t *testing.T) {
	const valid = "redis: {url: embedded}\nproviders: [{name: own, protocol: simulated}]\n" +
		"targets:\n  a: {type: turnstile, sitekey: x, pageurl: 'https://example.com/', owner: q, depth: 0, paused: true}\n"
	for name, text := range map[string]string{"valid": valid, "invalid": "budget: 5\n" + valid} {
		testkit.ErrorIs(t, name, runCheckOf(t, filepath.Join(t.TempDir(), "pools.yaml"), text, full{}), syscall.ENOSPC)
	}
}

// With --json each line is an object.
func TestCheckInJSON(t *testing.T) {
	printed, _ := runCheck(t, "targets: {}\n", "--json")
	const want = `{"class":"error","file":"FILE","line":1,"text":"targets: has no target: add at least one, ` +
		`with paused: true to buy nothing"}`
	testkit.Equal(t, "printed", strings.TrimSpace(printed), want)
}

// Each line of the output is an error, a warning or a fact. One line describes a target, its cost without requests and
// its limit. Missing budgets and prices are warnings, unless the provider is simulated. testdata/files.txt has files,
// and below => the output.
func TestCheck(t *testing.T) {
	text, err := os.ReadFile("testdata/files.txt")
	testkit.NoError(t, err)
	var written []string
	for part := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		file, _, _ := strings.Cut(part, "=>\n")
		printed, err := runCheck(t, file)
		testkit.Equal(t, file+": problems", err != nil && strings.Contains(err.Error(), "problems in "), err != nil)
		testkit.Equal(t, file+": an error is printed", strings.Contains(printed, ": error: "), err != nil)
		written = append(written, file+"=>\n"+strings.TrimSpace(printed))
	}
	testkit.Published(t, "testdata/files.txt", strings.Join(written, "\n\n")+"\n")
}
