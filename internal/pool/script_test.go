package pool

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"poold/internal/captcha"
)

// Each script and shared file uses names in place of numbers, and each name that the header
// of a script declares.
func TestScriptsUseTheirNames(t *testing.T) {
	files, err := sources.ReadDir("lua")
	if err != nil || len(files) < 40 {
		t.Fatal(len(files), err)
	}
	number := regexp.MustCompile(`(KEYS|ARGV)\[\d+\]`)
	for _, file := range files {
		text := source(file.Name())
		if bare := number.FindAllString(text, -1); bare != nil {
			t.Errorf("%s uses numbers: %q", file.Name(), bare)
		}
		shared := strings.HasPrefix(text, sharedFile)
		lists := headerOf(text)
		for _, part := range lists["Uses"] {
			text += source(part + ".lua")
		}
		for label, names := range lists {
			if label == "Reply" || label == "Uses" {
				continue
			}
			for i, name := range names {
				if slices.Index(names, name) != i {
					t.Errorf("%s declares %s.%s twice", file.Name(), label, name)
				}
				if !regexp.MustCompile(`\b` + label + `\.` + name + `\b`).MatchString(text) {
					t.Errorf("%s declares %s.%s and does not use it", file.Name(), label, name)
				}
			}
		}
		if !shared && !regexp.MustCompile(`(?m)^-- Reply  .`).MatchString(text) {
			t.Errorf("%s does not name its reply", file.Name())
		}
	}
}

func TestNamesAreResolved(t *testing.T) {
	lists := headerOf(`-- Does something with ARGV.
--
-- Uses   journal purge
-- KEYS   orders
--        journal, then one for each caller
-- ARGV   order lease_ms; lease_ms: 0 = none
-- WAITER  ticket arrival
-- Reply  {placed
--        wait_ms}, or 0
-- Errors none at all
local order = 1
-- LATER  is not in the header
`)
	want := map[string][]string{
		"Uses": {"journal", "purge"}, "KEYS": {"orders", "journal"}, "ARGV": {"order", "lease_ms"},
		"WAITER": {"ticket", "arrival"}, "Reply": {"placed", "wait_ms"},
	}
	for label, names := range want {
		if !slices.Equal(lists[label], names) {
			t.Errorf("%s: %q", label, lists[label])
		}
	}
	if len(lists) != len(want) {
		t.Errorf("further lists: %q", lists)
	}
	limits := map[string]string{"LIMIT.most": "30"}
	text := "KEYS.journal, ARGV[at + WAITER.arrival], #ARGV - ARGV.size, LIMIT.most, ARGV.lease_ms"
	if got := resolveNames("x", text, lists, limits); got != "KEYS[2], ARGV[at + 2], #ARGV - 2, 30, ARGV[2]" {
		t.Errorf("resolved to %s", got)
	}
	for _, wrong := range []string{"KEYS.ticket", "CALL.order", "ARGV.lease", "LIMIT.least"} {
		func() {
			defer func() {
				if said, _ := recover().(string); !strings.Contains(said, wrong) || !strings.Contains(said, "x.lua") {
					t.Errorf("%s: %q", wrong, said)
				}
			}()
			resolveNames("x", wrong, lists, limits)
		}()
	}
}

// A call gives a script exactly the arguments and at least the keys that its header names, in
// that order, and reads fields that it names.
func TestCallsUseTheNamesOfTheHeader(t *testing.T) {
	s := &script{name: "x", keys: []string{"orders", "spend"}, args: []string{"order", "lease_ms"}, fields: map[string]int{"placed": 0, "wait_ms": 1}}
	all := args{"order": captcha.ID("a"), "lease_ms": time.Second}
	keys, values := s.input(named{"spend": "S", "orders": "O", "other": "-"}, all, 7)
	if !slices.Equal(keys, []string{"O", "S"}) || !slices.Equal(values, []any{"a", int64(1000), 7}) {
		t.Errorf("%q, %v", keys, values)
	}
	if keys := s.keysOf((&keyspace{prefix: "p"}).keys("id")); !slices.Equal(keys, []string{"p:orders:{id}", "p:spend:{id}"}) {
		t.Errorf("of an identity: %q", keys)
	}
	r := s.read([]any{int64(1), int64(250)})
	if !r.is("placed") || r.ms("wait_ms") != 250*time.Millisecond || r.err != nil {
		t.Error(r.list, r.err)
	}
	for name, value := range map[string]any{"too short": []any{int64(1)}, "another type": []any{int64(1), "250"}, "no list": int64(1)} {
		if r := s.read(value); r.ms("wait_ms") != 0 || r.err == nil || !strings.Contains(r.err.Error(), "x.lua") {
			t.Errorf("%s: %v", name, r.err)
		}
	}
	for name, wrong := range map[string]func(){
		"a missing key":       func() { s.input(named{"orders": "O"}, all) },
		"a missing argument":  func() { s.input(named{"orders": "O", "spend": "S"}, args{"order": "a"}) },
		"an unknown argument": func() { s.input(named{"orders": "O", "spend": "S"}, args{"order": "a", "lease_ms": 1, "lease": 1}) },
		"an unknown field":    func() { r.int("wait") },
	} {
		func() {
			defer func() {
				if said, _ := recover().(string); !strings.Contains(said, "x.lua") {
					t.Errorf("%s: %q", name, said)
				}
			}()
			wrong()
		}()
	}
}
