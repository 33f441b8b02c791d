//go:build !race

package deploy_test

import (
	"bytes"
	"cmp"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"poold/internal/daemontest"
	"poold/internal/testkit"
)

const unitFile = "systemd/poold.service"

// unit returns the values of each key of the section Service.
func unit(t *testing.T, path string) map[string][]string {
	t.Helper()
	values, section := map[string][]string{}, ""
	for line := range strings.Lines(read(t, path)) {
		line = strings.TrimSpace(line)
		key, value, is := strings.Cut(line, "=")
		switch {
		case strings.HasPrefix(line, "["):
			section = line
		case section == "[Service]" && is && !strings.HasPrefix(line, "#"):
			values[key] = append(values[key], value)
		}
	}
	return values
}

// systemd accepts the unit, and rates its exposure at 1.5 or better. A mistake in the unit is found.
func TestUnit(t *testing.T) {
	t.Parallel()
	// systemd-analyze verify looks for the program, which is not installed here.
	text := strings.ReplaceAll(read(t, unitFile), "/usr/bin/poold", daemontest.Binary(t))
	verify := func(text string) (string, error) {
		path := write(t, filepath.Join(t.TempDir(), "poold.service"), text)
		output, err := exec.Command("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", path).CombinedOutput()
		return string(output), err
	}
	if output, err := verify(text); err != nil || output != "" {
		t.Errorf("systemd-analyze verify: %v\n%s", err, output)
	}
	if output, err := verify(strings.Replace(text, "ProtectHome=", "ProtectHouse=", 1)); err == nil && output == "" {
		t.Error("systemd-analyze verify accepts ProtectHouse=")
	}
	output, err := exec.Command("systemd-analyze", "security", "--offline=yes", "--threshold=15",
		unitFile).CombinedOutput()
	if err != nil {
		t.Errorf("systemd-analyze security: %v\n%s", err, output)
	}
	if !bytes.Contains(output, []byte("Overall exposure level")) {
		t.Errorf("systemd-analyze security prints no level:\n%s", output)
	}
}

// The unit starts the daemon with flags that it has, gives it the time that a stop takes, and passes
// the credentials that pools.yaml reads.
func TestUnitFitsTheDaemon(t *testing.T) {
	t.Parallel()
	u := unit(t, unitFile)
	one := func(key string) string {
		t.Helper()
		if len(u[key]) != 1 {
			t.Fatalf("%s=%q", key, u[key])
		}
		return u[key][0]
	}
	if one("Type") != "notify" || one("Restart") != "on-failure" || one("ExecReload") != "/bin/kill -HUP $MAINPID" {
		t.Errorf("Type=%s, Restart=%s, ExecReload=%s", one("Type"), one("Restart"), one("ExecReload"))
	}
	command := strings.Fields(one("ExecStart"))
	checkFlags(t, command[1:])
	if i := slices.Index(command, "--config"); i < 0 || command[i+1] != "/etc/poold/pools.yaml" {
		t.Errorf("ExecStart=%s", command)
	}
	testkit.AtLeast(t, "TimeoutStopSec", seconds(t, one("TimeoutStopSec")), longestStop(t))
	testkit.Equal(t, "the folder of the dead letters", one("WorkingDirectory"), "%S/"+one("StateDirectory"))
	const folder = "/run/credentials/poold.service/"
	var names []string
	for _, path := range secretFiles(read(t, "systemd/pools.yaml")) {
		name, is := strings.CutPrefix(path, folder)
		if !is {
			t.Errorf("systemd/pools.yaml reads %s, which is no credential of poold.service", path)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	// Without a path, a missing credential is not an error, so that the unit also starts with the demo
	// file. systemd searches for the credential in /etc/credstore.
	testkit.DeepEqual(t, "LoadCredential, like the credentials of systemd/pools.yaml", u["LoadCredential"], names)
}

// secretFiles returns the paths of the secrets that a pools.yaml reads, in the order of the text.
func secretFiles(text string) (paths []string) {
	for _, match := range regexp.MustCompile(`\$\{file:([^}]+)\}`).FindAllStringSubmatch(text, -1) {
		paths = append(paths, match[1])
	}
	return paths
}

// checkFlags reports a command or a flag that `poold` does not have.
func checkFlags(t *testing.T, args []string) {
	t.Helper()
	help, err := exec.Command(daemontest.Binary(t), args[0], "--help").CombinedOutput()
	if err != nil {
		t.Errorf("poold %s --help: %v\n%s", args[0], err, help)
	}
	for _, arg := range args[1:] {
		if strings.HasPrefix(arg, "-") && !regexp.MustCompile(`(?m)^ .*`+regexp.QuoteMeta(arg)+`\b`).Match(help) {
			t.Errorf("poold %s has no flag %s", args[0], arg)
		}
	}
}

func seconds(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	testkit.NoError(t, err)
	return d
}

// longestStop returns how long a stop takes at most: the stages of cmd/poold, during which a call to a
// provider may still be in flight, and some seconds for the last writes.
func longestStop(t *testing.T) time.Duration {
	t.Helper()
	stages := constant(t, "../cmd/poold/lifecycle.go", "stopGrace") + constant(t, "../cmd/poold/lifecycle.go",
		"drainLimit")
	return stages + constant(t, "../internal/provider/client.go", "callLimit") + 5*time.Second
}

// constant returns the duration of a constant `N * time.Second` or `time.Second` in a Go file.
func constant(t *testing.T, path, name string) time.Duration {
	t.Helper()
	factor := regexp.MustCompile(`(?m)^(?:const)?\s*` + name + `\s+= (?:(\d+) \* )?time\.Second\b`).FindStringSubmatch(
		read(t, path))
	if factor == nil {
		t.Fatalf("%s has no constant %s", path, name)
	}
	return seconds(t, cmp.Or(factor[1], "1")+"s")
}
