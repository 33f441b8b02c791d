package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"poold/internal/status"
	"poold/internal/targets"
)

// `poold check --diff` lists targets that are added, removed or renamed, or whose stock changes. It
// also lists changes that need a restart. It prints no control sequences from the daemon's texts.
func TestCheckDiff(t *testing.T) {
	t.Parallel()
	target := func(name, page string) string {
		return fmt.Sprintf("  %s: {type: turnstile, sitekey: x, pageurl: 'https://example.com/%s', owner: q, paused: true}\n", name, page)
	}
	const redis, history = "redis: {url: 'redis://:canary@h:6379'}\nproviders: [{name: s, protocol: simulated}]\n", "history: {backend: postgres, url: 'postgres://u:canary@db/h?password=canary'}\n"
	old := redis + history + "targets:\n" + target("stays", "a") + target("moves", "b") + target("goes", "c") + target("was", "d")
	set, err := targets.Parse("pools.yaml", []byte(old), targets.References{})
	if err != nil {
		t.Fatal(err)
	}
	var running status.Document
	running.Config.RestartNeeded = set.RestartNeeded()
	for i, x := range set.Targets {
		running.Targets = append(running.Targets, status.Target{Name: x.Name, Identity: string(x.ID), Fresh: i + 1, InFlight: 10 + i})
	}
	daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/status.json" || r.Header.Get("Authorization") != "Bearer key-of-test" {
			w.WriteHeader(http.StatusUnauthorized)
		}
		_ = json.NewEncoder(w).Encode(running)
	}))
	defer daemon.Close()
	path := filepath.Join(t.TempDir(), "pools.yaml")
	env := map[string]string{"POOLD_URL": daemon.URL, "POOLD_KEY": "key-of-test"}
	differs := func(file string) (code int, out, log string) {
		t.Helper()
		writeFile(t, path, file)
		code, out, log = runCommand(t, env, "check", "--diff", "--config", path)
		if strings.Contains(out+log, "canary") || strings.ContainsFunc(out+log, func(c rune) bool { return c < ' ' && c != '\n' }) || len(out) > 4000 {
			t.Errorf("it shows a secret, a control character or too much: %.300q", out+log)
		}
		out = out[strings.LastIndex(out, "paused in the configuration file\n")+len("paused in the configuration file\n"):]
		return code, out, log
	}
	if code, out, log := differs(strings.ReplaceAll(old, "canary", "cana")); code != 0 || out != "targets that keep their name and tokens: 4 of 4\n" {
		t.Errorf("the same but for passwords: exit %d\n%s%s", code, out, log)
	}
	const want = "+ comes is new\n" +
		"~ moves changes its identity; discarded: tokens 2, orders in flight 11\n" +
		"+ now is new, with the tokens of was\n" +
		"- goes is removed; discarded: tokens 1, orders in flight 10\n" +
		"- was is removed; its tokens go to now\n" +
		"! dead_letters needs a restart: now ./dead-letters, in the file /new\n" +
		"! history needs a restart: now postgres keep 2160h audit 168h postgres://db/h, in the file redis keep 168h audit 168h\n" +
		"! redis needs a restart: now redis://h:6379 prefix captcha, in the file redis://other:6379 prefix captcha\n" +
		"targets that keep their name and tokens: 1 of 4\n"
	altered := strings.Replace(redis, "@h", "@other", 1) + "dead_letters: {dir: /new}\ntargets:\n" +
		target("stays", "a") + target("moves", "b2") + target("comes", "e") + target("now", "d")
	if code, out, log := differs(altered); code != 0 || out != want {
		t.Errorf("exit %d\n%s%s\nwant\n%s", code, out, log, want)
	}
	delete(running.Config.RestartNeeded, "redis") // as if the daemon did not report this setting
	if code, out, log := differs(altered); code != 0 || strings.Contains(out, "! redis") || !strings.Contains(out, "! history") {
		t.Errorf("redis is not told: exit %d\n%s%s", code, out, log)
	}

	running.Targets = append(running.Targets, status.Target{Name: "\x1b[2Jevil\r" + strings.Repeat("x", 10<<10), Identity: "i"})
	running.Config.RestartNeeded["server.listen"] = "\x1b]0;evil\a"
	if code, out, _ := differs(old); code != 0 || !strings.Contains(out, "\uFFFD[2Jevil\uFFFDxxx") || !strings.Contains(out, "…") || !strings.Contains(out, "now \uFFFD]0;evil\uFFFD,") {
		t.Errorf("a hostile daemon: exit %d, %q", code, out)
	}
	running.Config.RestartNeeded = nil
	if code, _, log := differs(old); code != 1 || !strings.Contains(log, "the key is limited to some targets") {
		t.Errorf("a limited key: exit %d, %s", code, log)
	}
	env["POOLD_KEY"] = "other"
	if code, _, log := differs(old); code != 1 || !strings.Contains(log, "the daemon answered 401") {
		t.Errorf("a wrong key: exit %d, %s", code, log)
	}
}
