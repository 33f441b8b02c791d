//go:build !race

package deploy_test

import (
	"debug/buildinfo"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"poold/internal/daemontest"
	"poold/internal/testkit"
)

// Every file of the Debian package exists, or scripts/release makes it. The package has each of the
// maintainers' scripts, and a shell can parse them.
func TestPackageSources(t *testing.T) {
	t.Parallel()
	var config struct {
		Contents []struct{ Src string }
		Scripts  map[string]string
	}
	testkit.NoError(t, yaml.Unmarshal([]byte(read(t, "nfpm.yaml")), &config))
	release := strings.ReplaceAll(read(t, "../scripts/release"), `${platform/\//_}`, "linux_${ARCH}")
	for _, c := range config.Contents {
		if strings.HasPrefix(c.Src, "build/") {
			folder, name := path.Split(strings.TrimSuffix(c.Src, "/*"))
			if !strings.Contains(release, folder) || !strings.Contains(release, name) {
				t.Errorf("scripts/release does not make %s", c.Src)
			}
		} else if found, err := filepath.Glob("../" + c.Src); len(found) == 0 || err != nil {
			t.Errorf("nfpm.yaml has the file %s, which does not exist", c.Src)
		}
	}
	scripts, err := filepath.Glob("deb/*")
	if err != nil || len(scripts) != len(config.Scripts) {
		t.Errorf("nfpm.yaml has the scripts %v, and deb/ has %v: %v", config.Scripts, scripts, err)
	}
	for key, file := range config.Scripts {
		if output, err := exec.Command("sh", "-n", "../"+file).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", key, err, output)
		}
	}
}

// Every file that the Dockerfile copies exists and is not ignored, or a command of the first stage
// makes it.
func TestImageSources(t *testing.T) {
	t.Parallel()
	text := strings.ReplaceAll(read(t, "../Dockerfile"), "\\\n", " ")
	made := strings.Join(regexp.MustCompile(`(?m)^RUN .*`).FindAllString(text, -1), " ") + " "
	ignored := strings.Fields(read(t, "../.dockerignore"))
	copies := regexp.MustCompile(`(?m)^COPY ((?:--\S+ )*)(.+) \S+$`).FindAllStringSubmatch(text, -1)
	testkit.AtLeast(t, "copies in the Dockerfile", len(copies), 5)
	for _, copied := range copies {
		for _, source := range strings.Fields(copied[2]) {
			if strings.Contains(copied[1], "--from=") {
				// A file of a folder that a command fills, or a path that a command names.
				if !strings.Contains(made, " "+source+" ") &&
					!strings.Contains(made, "/"+path.Base(source)+" "+path.Dir(source)+"/") {
					t.Errorf("no RUN of the Dockerfile makes %s", source)
				}
			} else if _, err := os.Stat("../" + source); err != nil || slices.Contains(ignored, source) {
				t.Errorf("the Dockerfile copies %s: %v, ignored %q", source, err, ignored)
			}
		}
	}
}

// A release needs a version and its section in the changelog. A prerelease needs no section. Both
// need a clean work tree.
func TestReleaseRules(t *testing.T) {
	t.Parallel()
	// A git that finds a changed file, so that a release stops at the last rule.
	folder := t.TempDir()
	testkit.NoError(t, os.WriteFile(folder+"/git", []byte("#!/bin/sh\necho ' M changed.go'\n"), 0o700))
	newest := regexp.MustCompile(`(?m)^## (\d\S*)`).FindStringSubmatch(read(t, "../CHANGELOG.md"))
	if newest == nil {
		t.Fatal("the changelog has no version")
	}
	const last = "A release contains only what is committed. These files are not:\n M changed.go\n"
	for _, row := range []struct{ args, output string }{
		{"", "usage: "},
		{"v1.2.3", "usage: "},
		{"1.2", "usage: "},
		{"1.2.3+1", "usage: "},
		{"--check 1.2.3/4", "usage: "},
		{"999.0.0", "CHANGELOG.md has no section ## 999.0.0\n"},
		{newest[1] + "0", "CHANGELOG.md has no section "},
		{"999.0.0-rc.1", last},
		{newest[1], last},
		{"--check", last},
	} {
		command := exec.Command("../scripts/release", strings.Fields(row.args)...)
		command.Env = append(os.Environ(), "PATH="+folder+":"+os.Getenv("PATH"))
		output, err := command.CombinedOutput()
		if err == nil || !strings.HasPrefix(string(output), row.output) {
			t.Errorf("scripts/release %s: %v\n%s", row.args, err, output)
		}
	}
}

// The licenses of a release have a text of each module that is linked into poold, and of Go.
func TestLicenses(t *testing.T) {
	t.Parallel()
	info, err := buildinfo.ReadFile(daemontest.Binary(t))
	testkit.NoError(t, err)
	command := exec.Command("../scripts/licenses", runtime.GOOS+"/"+runtime.GOARCH)
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	list, texts, _ := strings.Cut(string(output), "\n===")
	modules := []string{"Go " + info.GoVersion}
	for _, m := range info.Deps {
		modules = append(modules, m.Path+" "+m.Version)
	}
	for _, module := range modules {
		_, text, found := strings.Cut(texts, "\n"+module+": ")
		text, _, _ = strings.Cut(text, "\n===")
		if !found || !strings.Contains(text, "opyright") || !strings.Contains(list, "\n  "+module+"\n") {
			t.Errorf("no license of %s in %d bytes:\n%s", module, len(output), text)
		}
	}
	testkit.Equal(t, "modules in the list, with Go", strings.Count(list, "\n  "), len(modules))
}
