package redisdb

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"poold/internal/captcha"
)

// panics calls do and returns the message of its panic; "" if there is no panic.
func panics(do func()) (message string) {
	defer func() { message, _ = recover().(string) }()
	do()
	return ""
}

// A header contains lists of names. A list may continue on the next line and ends before an
// explanation.
func TestHeadersHaveListsOfNames(t *testing.T) {
	h := headerOf(`-- Does something with ARGV.
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
		if !slices.Equal(h[label], names) {
			t.Errorf("%s: %q", label, h[label])
		}
	}
	if len(h) != len(want) {
		t.Errorf("further lists: %q", h)
	}
	text := "KEYS.journal, ARGV[at + WAITER.arrival], #ARGV - ARGV.size, ARGV.lease_ms"
	if got := resolveNames("x", text, h.names(), map[string]bool{}); got != "KEYS[2], ARGV[at + 2], #ARGV - 2, ARGV[2]" {
		t.Errorf("resolved to %s", got)
	}
}

// A script consists of the general text, the common text of its package, the shared files under Uses,
// and its own text. LoadScripts finds mistakes in names.
func TestLoadScriptsFindsMistakesInNames(t *testing.T) {
	load := func(text string) Scripts {
		return LoadScripts(fstest.MapFS{
			"lua/common.lua": {Data: []byte(sharedFile + "everywhere.\n-- common")},
			"lua/lists.lua":  {Data: []byte(sharedFile + "lists.\nlocal list = KEYS.list")},
			"lua/x.lua":      {Data: []byte(text)},
		}, map[string]string{"LIMIT.most": "30"})
	}
	all := load("-- Uses   lists\n-- KEYS   list\nreturn {LIMIT.most}")
	if text := all.Get("x").Text; len(all) != 1 || !strings.HasPrefix(text, "-- The text at the start of every script.") ||
		!strings.HasSuffix(text, "-- common\n-- Shared: lists.\nlocal list = KEYS[1]\n-- Uses   lists\n-- KEYS   list\nreturn {30}") {
		t.Errorf("%d scripts: %s", len(all), text)
	}
	for text, want := range map[string]string{
		"-- ARGV   order\nreturn ARGV.order + ARGV.lease": "x.lua uses a name that no header declares: ARGV.lease",
		"return CALL.order":                        "x.lua uses a name that no header declares: CALL.order",
		"return LIMIT.least":                       "x.lua uses a name that no header declares: LIMIT.least",
		"-- Uses   lists\nreturn 1":                "lists.lua uses a name that no header declares: KEYS.list",
		"-- Uses   others\nreturn 1":               "script missing from the binary: others",
		"return KEYS[1]":                           "x.lua uses KEYS[1] instead of a name",
		"-- ARGV   order lease\nreturn ARGV.order": "the header of x.lua declares ARGV.lease, which is not used",
		"-- ARGV   order order\nreturn ARGV.order": "a header declares ARGV.order twice",
	} {
		if said := panics(func() { load(text) }); said != "redisdb: "+want {
			t.Errorf("%s: %q, want %q", text, said, want)
		}
	}
	if said := panics(func() { LoadScripts(fstest.MapFS{}, nil) }); !strings.HasPrefix(said, "redisdb: no scripts in the binary: ") {
		t.Errorf("without a folder: %q", said)
	}
	if said := panics(func() { all.Get("y") }); said != "redisdb: no script y.lua" {
		t.Errorf("another name: %q", said)
	}
}

// A call must pass exactly the arguments and at least the keys in the script's header. Arguments and
// keys are sent in the order of the header. A reply has the fields in the header.
func TestCallsUseTheNamesOfTheHeader(t *testing.T) {
	s := &Script{name: "x", header: header{"KEYS": {"orders", "spend"}, "ARGV": {"order", "lease_ms"}}, fields: map[string]int{"placed": 0, "wait_ms": 1}}
	all := Args{"order": captcha.ID("a"), "lease_ms": time.Second}
	keys, values := s.Input(Keys{"spend": "S", "orders": "O", "other": "-"}, all, 7)
	if !slices.Equal(keys, []string{"O", "S"}) || !slices.Equal(values, []any{"a", int64(1000), 7}) {
		t.Errorf("%q, %v", keys, values)
	}
	if keys := s.KeysOf(struct{ spend, orders, other string }{"S", "O", "-"}); !slices.Equal(keys, []string{"O", "S"}) {
		t.Errorf("of a struct: %q", keys)
	}
	r := s.Read([]any{int64(1), int64(250)})
	if !r.Is("placed") || r.Duration("wait_ms") != 250*time.Millisecond || r.Err != nil {
		t.Error(r.list, r.Err)
	}
	for name, value := range map[string]any{"too short": []any{int64(1)}, "another type": []any{int64(1), "250"}, "no list": int64(1)} {
		if r := s.Read(value); r.Duration("wait_ms") != 0 || r.Err == nil || !strings.Contains(r.Err.Error(), "x.lua") {
			t.Errorf("%s: %v", name, r.Err)
		}
	}
	for name, wrong := range map[string]func(){
		"a missing key":       func() { s.Input(Keys{"orders": "O"}, all) },
		"a missing argument":  func() { s.Input(Keys{"orders": "O", "spend": "S"}, Args{"order": "a"}) },
		"an unknown argument": func() { s.Input(Keys{"orders": "O", "spend": "S"}, Args{"order": "a", "lease_ms": 1, "lease": 1}) },
		"an unknown field":    func() { r.Int("wait") },
	} {
		if said := panics(wrong); !strings.Contains(said, "x.lua") {
			t.Errorf("%s: %q", name, said)
		}
	}
}
