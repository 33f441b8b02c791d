package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"poold/internal/daemontest"
	"poold/internal/testkit"

	"gopkg.in/yaml.v3"
)

// story runs the blocks of a page of the docs, one after another.
type story struct {
	t      *testing.T
	folder string
	env    []string
	daemon *process
	site   *httptest.Server
	file   map[string]any // content of pools.yaml
	kept   []string       // files with programs that no command of the page has run yet
}

const exampleKey = "0123456789abcdef0123456789abcdef"

// newStory starts a daemon for a page. The daemon uses pools.yaml, but with the given solving
// service. It waits until the daemon serves a token.
func newStory(t *testing.T, blocks []block, service string) *story {
	t.Helper()
	s := &story{t: t, folder: t.TempDir(), site: newSite(t)}
	text, err := os.ReadFile(filepath.Join(root, "pools.yaml"))
	if err == nil {
		err = yaml.Unmarshal(text, &s.file)
	}
	testkit.NoError(t, err)
	for _, target := range s.file["targets"].(map[string]any) {
		delete(target.(map[string]any), "simulated_only") // for poold, the story's service is a real service
	}
	s.add(fmt.Sprintf("providers: [{name: captchaai, service: captchaai, url: %q, key: %s, first_poll: 100ms, "+
		"poll_interval: 100ms, price_per_1000: 2.99}]", service, exampleKey))
	key := ""
	if slices.ContainsFunc(blocks, func(b block) bool { return strings.Contains(b.text, "POOLD_KEY") }) {
		key = exampleKey
	}
	s.daemon = startProgram(t, daemontest.Binary(t), s.path("pools.yaml"), key, "POOLD_KEY="+key)
	clients, err := filepath.Abs(filepath.Join(root, "clients"))
	if err == nil {
		err = errors.Join(os.Symlink(daemontest.Binary(t), s.path("poold")), os.Symlink(clients, s.path("clients")))
	}
	testkit.NoError(t, err)
	s.env = append(os.Environ(), "PATH="+s.folder+":"+os.Getenv("PATH"), "POOLD_URL="+s.daemon.URL, "POOLD_KEY="+key,
		"CURL_HOME="+s.folder)
	writeFile(t, s.path(".curlrc"), "fail\n")
	writeFile(t, s.path("letters.png"), "\x89PNG\r\n\x1a\nof a test")
	s.use()
	return s
}

func (s *story) path(name string) string { return filepath.Join(s.folder, name) }

// use waits until the daemon has filled its pools, takes a token and sends a report about this token.
func (s *story) use() {
	s.t.Helper()
	h, code, err := s.daemon.take(s.t.Context(), http.DefaultClient, "staging-login", "?wait=20s")
	if code != http.StatusOK {
		s.t.Fatal(code, err)
	}
	s.daemon.order(http.MethodPost, "/pool/staging-login/token/"+h.ID+"/report", `{"outcome":"accepted"}`,
		http.StatusNoContent)
	testkit.Within(s.t, 20*time.Second, "full pools", func() bool {
		at := s.daemon.target("staging-login")
		return at.Fresh == at.Depth
	})
	testkit.Within(s.t, 20*time.Second, "the audit", func() bool {
		name := map[bool]string{true: "default", false: "-"}[s.daemon.key != ""]
		var page struct{ Records []struct{ Action string } }
		getJSON(s.t, s.daemon.URL+"/history/key/"+name, s.daemon.key, &page)
		return len(page.Records) == 2
	})
}

// add adds sections to pools.yaml, and makes a running daemon read the file again.
func (s *story) add(text string) {
	s.t.Helper()
	var sections map[string]any
	testkit.NoError(s.t, yaml.Unmarshal([]byte(text), &sections))
	if s.daemon != nil {
		delete(sections, "providers") // the page names a paid service; the story keeps its own service
	}
	merge(s.file, sections)
	merged, err := yaml.Marshal(s.file)
	testkit.NoError(s.t, err)
	writeFile(s.t, s.path("pools.yaml"), string(merged))
	if s.daemon != nil {
		s.daemon.order(http.MethodPost, "/-/reload", "", http.StatusNoContent)
	}
}

// merge copies the values of one mapping into another mapping, recursively.
func merge(into, from map[string]any) {
	for name, value := range from {
		inner, is := value.(map[string]any)
		old, was := into[name].(map[string]any)
		if is && was {
			merge(old, inner)
			continue
		}
		into[name] = value
	}
}

func (s *story) run(b block) {
	s.t.Helper()
	b.text = strings.ReplaceAll(b.text, "127.0.0.1:8080", strings.TrimPrefix(s.daemon.URL, "http://"))
	switch strings.Join(b.words, " ") {
	case "yaml add":
		s.add(b.text)
	case "sh":
		s.bash(b, b.script())
	case "console":
		s.console(b)
	case "python":
		s.program(b, "python3")
	case "js":
		s.linkModules()
		b.text = strings.ReplaceAll(b.text, "https://my.example.com/login", s.site.URL)
		s.program(b, "node")
	}
}

// console runs the commands of a block and compares their output.
func (s *story) console(b block) {
	s.t.Helper()
	for _, part := range strings.Split("\n"+b.text, "\n$ ")[1:] {
		command, shown, _ := strings.Cut(part, "\n")
		if b.notRun(command) {
			continue
		}
		printed := s.bash(b, command)
		if difference := shapeDifference(strings.TrimSpace(shown), strings.TrimSpace(printed)); difference != "" {
			s.t.Errorf("%s: %s: %s\nit printed\n%s", b, command, difference, printed)
		}
	}
}

// program runs a program. If the program begins with a comment that names a file, the program is
// not run, but stored in this file.
func (s *story) program(b block, with string) {
	s.t.Helper()
	if name := fileComment.FindStringSubmatch(b.text); name != nil {
		writeFile(s.t, s.path(name[1]), b.text)
		s.kept = append(s.kept, name[1])
		return
	}
	writeFile(s.t, s.path("example"), b.text)
	s.bash(b, with+" example")
}

// fileComment matches a first line that is a comment with the name of a file.
var fileComment = regexp.MustCompile(`\A(?://|#) ([\w.-]+\.(?:js|py|ts))\n`)

// bash runs commands in the story's folder and returns their output.
func (s *story) bash(b block, commands string) string {
	s.t.Helper()
	s.kept = slices.DeleteFunc(s.kept, func(name string) bool { return strings.Contains(commands, name) })
	ctx, cancel := context.WithTimeout(s.t.Context(), 3*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", commands)
	command.Dir, command.Env = s.folder, s.env
	var printed, problems strings.Builder
	command.Stdout, command.Stderr = &printed, &problems
	if err := command.Run(); err != nil {
		s.t.Fatalf("%s: %v\n%s\nit printed\n%s%s", b, err, commands, printed.String(), problems.String())
	}
	return printed.String()
}

// linkModules links the npm packages of scripts/setup into the story's folder. It also writes a
// configuration file for Playwright, with the browser to use and with timeouts for a busy machine.
func (s *story) linkModules() {
	s.t.Helper()
	const missing = "the packages of scripts/docs are not on this machine (scripts/test installs them): %v"
	browser, err := exec.LookPath("chromium")
	testkit.NoError(s.t, err)
	cache, err := os.UserCacheDir()
	testkit.NoError(s.t, err)
	modules := filepath.Join(cache, "poold", "docs", "node_modules")
	if _, err := os.Stat(modules); err != nil {
		s.t.Fatalf(missing, err)
	}
	if err := os.Symlink(modules, s.path("node_modules")); err != nil && !errors.Is(err, fs.ErrExist) {
		s.t.Fatal(err)
	}
	writeFile(s.t, s.path("playwright.config.js"), fmt.Sprintf(
		"module.exports = { timeout: 120_000, expect: { timeout: 60_000 }, "+
			"use: { launchOptions: { executablePath: %q } } };\n", browser))
}

// newSite starts a site with a form that a CAPTCHA protects. The form accepts tokens of the
// simulated service.
func newSite(t *testing.T) *httptest.Server {
	t.Helper()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if r.Method == http.MethodPost {
			if token := r.PostFormValue("g-recaptcha-response"); strings.HasPrefix(token, "SIMULATED.recaptcha_v2.") {
				_, _ = w.Write([]byte("<h1>Welcome</h1>"))
				return
			}
			w.WriteHeader(http.StatusForbidden)
			return
		}
		_, _ = w.Write([]byte(`<form method="post"><div class="g-recaptcha"><textarea name="g-recaptcha-response" ` +
			`style="display: none"></textarea></div><button>Log in</button></form>`))
	}))
	t.Cleanup(site.Close)
	return site
}

// shapeDifference describes how the shape of the printed text differs from the shape of the text on the
// page.
func shapeDifference(shown, printed string) string {
	if shown == "" {
		return ""
	}
	if !strings.HasPrefix(shown, "{") {
		want, _, _ := strings.Cut(shown, "\n")
		got, _, _ := strings.Cut(printed, "\n")
		if shapeOf(got) != shapeOf(want) {
			return fmt.Sprintf("the page shows %q", want)
		}
		return ""
	}
	want, got := fields(shown), fields(printed)
	more := regexp.MustCompile(`[,{\[]\s*…`).MatchString(shown) // the page omits members of the JSON
	for _, name := range want {
		if !slices.Contains(got, name) {
			return fmt.Sprintf("the page shows %q, which is not there", name)
		}
	}
	if !more && len(got) != len(want) {
		return fmt.Sprintf("the page shows %q, there is %q", want, got)
	}
	return ""
}

// shapeOf returns the words of a line. It replaces each word that contains a digit by "0".
func shapeOf(line string) string {
	all := strings.Fields(line)
	for i, word := range all {
		if strings.ContainsAny(word, "0123456789") {
			all[i] = "0"
		}
	}
	return strings.Join(all, " ")
}

// fields returns the names in a JSON text, each once, in alphabetical order.
func fields(text string) []string {
	var names []string
	for _, found := range regexp.MustCompile(`"(\w+)":`).FindAllStringSubmatch(text, -1) {
		names = append(names, found[1])
	}
	slices.Sort(names)
	return slices.Compact(names)
}
