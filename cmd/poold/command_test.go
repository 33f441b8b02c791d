package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"poold/internal/cli"
	"poold/internal/testkit"
)

// run runs poold in this process, and returns its exit code. Scripts depend on the exit codes, so the
// tests contain the numbers.
func run(ctx context.Context, args []string, lookup func(string) (string, bool), stdout, stderr io.Writer) int {
	return commands().Run(ctx, &cli.Console{Lookup: lookup, Stdout: stdout, Stderr: stderr}, args)
}

func runCommand(t *testing.T, env map[string]string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, log strings.Builder
	code = run(t.Context(), args, func(name string) (string, bool) { value, ok := env[name]; return value, ok }, &out,
		&log)
	return code, out.String(), log.String()
}

// Each kind of failure of a command has its exit code, and says what to do.
func TestExitCodes(t *testing.T) {
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.yaml"), filepath.Join(dir, "bad.yaml")
	writeFile(t, good, serverless)
	writeFile(t, bad, "providers: 5\n")
	for _, c := range []struct {
		args           string
		code           int
		stdout, stderr string // parts of the output
	}{
		{"version", 0, "poold dev, commit ", ""},
		{"help", 0, "Usage:\n  poold", ""},
		{"schema", 0, `"$schema": "https://json-schema.org/draft/2020-12/schema"`, ""},
		{"check --config " + good, 0, "is valid; targets: 1, providers: 1", ""},
		{"check --config " + bad, 1, bad + ":1: error: providers: ", "problems in " + bad + ": 2"},
		{"check --config " + dir + "/none.yaml", 1, dir +
			"/none.yaml: error: the file cannot be read: no such file or directory; " +
			"name the file with --config (or POOLD_CONFIG)", "problems in"},
		// The first log line of a start precedes every step that can wait, even the reading of the
		// file.
		{"serve --config " + dir + "/none.yaml", 1, "", `msg=starting version=dev commit=`},
		{"serve --config " + bad, 1, "", bad + ":1: providers: "},
		{"check --no-such-flag", 2, "", "no-such-flag"},
		{"nonsense", 2, "", `unknown command "nonsense"`},
		{"serve --log-level loud", 2, "", `invalid argument "loud" for "--log-level" flag`},
		{"serve --log-format xml", 2, "", "--log-format is text or json"},
		{"serve --listen 127.0.0.1", 2, "", "--listen (or POOLD_LISTEN) must be host:port"},
		{"serve --listen 127.0.0.1:65536", 2, "", "--listen (or POOLD_LISTEN) must be host:port"},
	} {
		code, stdout, stderr := runCommand(t, nil, strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(stdout, c.stdout) || !strings.Contains(stderr, c.stderr) ||
			(stdout == "") != (c.stdout == "") || (stderr == "") != (c.stderr == "") {
			t.Errorf("%s: exit %d, want %d\nstdout: %s\nstderr: %s", c.args, code, c.code, stdout, stderr)
		}
	}
}

// A flag overrides the environment, which overrides the file or the default. An empty variable
// counts as unset.
func TestFlagsOverrideTheEnvironment(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.NoError(t, err)
	defer func() { _ = taken.Close() }()
	// The start fails for two addresses: one is open to the network, so the checks of the file
	// refuse it, and one is in use, so the daemon cannot bind it. The error shows which of the two
	// addresses the daemon used.
	const open, openText = "0.0.0.0:1", "the daemon listens on loopback addresses only"
	const takenText = "address already in use by another program or another poold: stop it, " +
		"or choose another address with --listen (or POOLD_LISTEN, or server.listen in the file)"
	used := taken.Addr().String()
	writeFile(t, file("taken"), "server: {listen: '"+used+"'}\n"+serverless)
	writeFile(t, file("open"), "server: {listen: '"+open+"'}\n"+serverless)
	var asked string
	daemon := func(name string) string {
		server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			asked = name + " " + r.Header.Get("Authorization")
		}))
		t.Cleanup(server.Close)
		return server.URL
	}
	writeFile(t, file("key"), "\n key-of-file\r\n")
	env := map[string]string{"POOLD_URL": daemon("env") + "/", "POOLD_KEY": "key-of-env"}
	for _, c := range []struct {
		config, listen string // of the environment
		args           string
		want           string // part of the output, or of the request to a daemon
	}{
		{"", "", "check", "pools.yaml: "},
		{file("env"), "", "check", file("env") + ": "},
		{file("env"), "", "check --config " + file("flag"), file("flag") + ": "},
		{file("taken"), "", "serve", takenText},
		{file("open"), "", "serve", openText},
		{file("taken"), open, "serve", openText},
		{file("taken"), open, "serve --listen " + used, takenText},
		{file("taken"), used, "serve --listen " + open, openText},
		{"", "", "healthcheck", "env Bearer key-of-env"},
		{"", "", "healthcheck --url " + daemon("flag") + " --key-file " + file("key"), "flag Bearer key-of-file"},
	} {
		asked, env["POOLD_CONFIG"], env["POOLD_LISTEN"] = "", c.config, c.listen
		if _, stdout, stderr := runCommand(t, env, strings.Fields(c.args)...); !strings.Contains(stdout+stderr+asked,
			c.want) {
			t.Errorf("POOLD_CONFIG=%s POOLD_LISTEN=%s %s:\n%s%s%s", c.config, c.listen, c.args, stdout, stderr, asked)
		}
	}
}

// allCommands returns the commands that the help lists, in an empty environment, without groups.
func allCommands() (list []*cobra.Command) {
	var add func(command *cobra.Command)
	add = func(command *cobra.Command) {
		for _, below := range command.Commands() {
			if below.IsAvailableCommand() && !below.HasSubCommands() {
				list = append(list, below)
			}
			add(below)
		}
	}
	add(commands().Root(&cli.Console{Lookup: func(string) (string, bool) { return "", false }}))
	return list
}

// Each command has examples that use only existing flags, describes each flag, and has a man page, which
// has nothing of the packager's environment.
func TestHelpAndManPages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1")
	here := map[string]string{"POOLD_URL": "http://here.example.com", "POOLD_CONFIG": "/here.yaml"}
	if code, stdout, stderr := runCommand(t, here, "man", dir); code != 0 || stdout != "the man pages are in "+dir+"\n" {
		t.Fatalf("exit %d: %s%s", code, stdout, stderr)
	}
	list := allCommands()
	testkit.AtLeast(t, "commands", len(list), 25)
	for _, command := range list {
		path := command.CommandPath()
		page, err := os.ReadFile(filepath.Join(dir, strings.ReplaceAll(path, " ", "-")+".1"))
		if err != nil || strings.Contains(string(page), "/here") {
			t.Errorf("the man page of %s: %v\n%s", path, err, page)
		}
		for _, example := range strings.Split(command.Example, "\n") {
			if !strings.HasPrefix(example, "  "+path) {
				t.Errorf("%s: the example %q is of another command", path, example)
			}
			for _, name := range regexp.MustCompile(`--([a-z-]+)`).FindAllStringSubmatch(example, -1) {
				if command.Flags().Lookup(name[1]) == nil {
					t.Errorf("%s: the example %q has another flag", path, example)
				}
			}
		}
		command.Flags().VisitAll(func(f *pflag.Flag) {
			if len(f.Usage) < 5 || !strings.Contains(strings.ReplaceAll(string(page), `\-`, "-"), "--"+f.Name) {
				t.Errorf("%s --%s: %q", path, f.Name, f.Usage)
			}
		})
	}
	if code, _, stderr := runCommand(t, nil, "man", filepath.Join(dir, "poold.1")); code != 1 ||
		!strings.Contains(stderr, "not a directory") {
		t.Errorf("a file: exit %d: %s", code, stderr)
	}
}

// The image reports its version and commit: the variables that the Dockerfile sets exist and are used.
func TestVersionOfTheImage(t *testing.T) {
	dockerfile, err := os.ReadFile(filepath.Join("..", "..", "Dockerfile"))
	testkit.NoError(t, err)
	for _, want := range []string{"-X main.version=${VERSION}", "-X main.revision=${COMMIT}", "\nARG VERSION=",
		"\nARG COMMIT="} {
		if !strings.Contains(string(dockerfile), want) {
			t.Errorf("the Dockerfile has no %q", want)
		}
	}
	version, revision = "1.2", "0123abcd"
	defer func() { version, revision = "dev", "" }()
	if _, said, _ := runCommand(t, nil, "version"); !strings.HasPrefix(said, "poold 1.2, commit 0123abcd, go1.") {
		t.Error(said)
	}
}
