package cli

import (
	"fmt"
	"strings"
	"testing"
	"unicode"

	"poold/internal/refill"
	"poold/internal/status"
)

// A line of the status has at most 100 columns. No control character from a document reaches the
// terminal.
func TestHostileStatusFitsTheTerminal(t *testing.T) {
	for name, word := range map[string]string{
		"long":     strings.Repeat("x", 10_000),
		"words":    strings.Repeat("word ", 2_000),
		"wide":     strings.Repeat("漢字", 3_000),
		"accents":  strings.Repeat("e\u0301", 3_000),
		"controls": "\x1b[2J\x1b]0;title\x07\r\n\t\u009b31m\u202e\u200b\x00" + "<script>alert(1)</script>",
		"html":     `<img src=x onerror="alert(1)">&amp;`,
	} {
		d := status.Document{Version: word, AsOf: word, Alarms: []string{word}, Notices: []string{word}, DeadLetters: 1 << 40}
		d.Config.Problems, d.Redis.Mode, d.Redis.Reason = []string{word}, word, word
		d.Solve, d.Dedup = &status.Solve{Reason: word}, &status.Dedup{Reason: word}
		most, spent := 1e300, status.Money(1e300)
		for _, state := range []string{refill.Refused, refill.OK, word} {
			d.Providers = append(d.Providers, status.Provider{Name: word, State: state, Reason: word, InFlight: 1 << 62, Balance: &most})
			d.Targets = append(d.Targets, status.Target{
				Name: word, Type: word, Owner: word, State: state, Reason: word, Marks: []string{word}, Limit: word, Refill: word, Sitekey: word, Pageurl: word,
				Fresh: 1 << 62, Want: 1 << 62, Warm: 1 << 61, InFlight: 1 << 62, Waiting: 1 << 62, Spent: spent, Counters: status.Counters{Counts: status.Counts{Requests: 1 << 62}}, NextExpiry: &most,
			})
		}
		for _, screen := range []screen{{columns: 100, colours: true}, {columns: 40}} {
			only := status.Document{Targets: d.Targets[:1]}
			for _, text := range []string{statusText(&d, false, screen), statusText(&only, true, screen)} {
				if screen.colours {
					for _, colour := range []string{"31", "32", "33", "90", "0"} {
						text = strings.ReplaceAll(text, "\x1b["+colour+"m", "")
					}
				}
				for _, line := range strings.Split(text, "\n") {
					if columnsOf(line) > screen.columns {
						t.Fatalf("%s: %d columns: %q", name, columnsOf(line), line)
					}
				}
				if at := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); at >= 0 {
					t.Errorf("%s: %q", name, text[at:min(at+20, len(text))])
				}
				if name == "html" && !strings.Contains(text, "<img src=x") {
					t.Errorf("%s: it is not shown as it is:\n%.500s", name, text)
				}
			}
		}
	}
}

// Only states are coloured.
func TestOnlyStatesAreColoured(t *testing.T) {
	d := status.Document{Targets: []status.Target{{Name: "ok", State: refill.OK}, {Name: "starved", State: refill.Starved, Reason: "starved"}}}
	plainText := statusText(&d, false, screen{columns: 100})
	text := statusText(&d, false, screen{columns: 100, colours: true})
	for _, line := range []string{"ok       \x1b[32mok\x1b[0m       0 ", "starved  \x1b[31mstarved\x1b[0m  0 ", "starved: starved"} {
		if !strings.Contains(text, "\n"+line) {
			t.Errorf("no %q in\n%q", line, text)
		}
	}
	if strings.Contains(plainText, "\x1b") || strings.Count(text, "\x1b") != 4 {
		t.Errorf("%q", text)
	}
}

// Texts are shortened and wrapped by columns. A wide character counts as two columns.
func TestTextsAreCutByColumns(t *testing.T) {
	for _, c := range []struct {
		text    string
		columns int
		cut     string
		wrapped string
	}{
		{"", 5, "", ""},
		{"abcde", 5, "abcde", "abcde"},
		{"abcdef", 5, "abcd…", "abcde\n  f"},
		{"漢字漢", 5, "漢字…", "漢字\n  漢"},
		{"one two  three", 8, "one two…", "one two\n  three"},
		{"a b", 0, "", "a\n  b"},
	} {
		if got := shorten(c.text, c.columns); got != c.cut {
			t.Errorf("shorten(%q, %d) = %q", c.text, c.columns, got)
		}
		if got := wrapLines(c.text, c.columns); got != c.wrapped {
			t.Errorf("wrapLines(%q, %d) = %q, want %q", c.text, c.columns, got, c.wrapped)
		}
	}
	if n := columnsOf("a漢" + fmt.Sprint(1)); n != 4 {
		t.Errorf("%d columns", n)
	}
}

// If several targets have the same reason, the status has one line for all of them, unless the user
// selects targets by name.
func TestEqualReasonsAreOneLine(t *testing.T) {
	var d status.Document
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		d.Targets = append(d.Targets, status.Target{Name: name, State: refill.Starved, Reason: "no provider"})
	}
	d.Targets = append(d.Targets, status.Target{Name: "f", State: refill.Starved, Reason: "its own", Marks: []string{"failing"}})
	text := statusText(&d, false, screen{columns: 100})
	if !strings.Contains(text, "\na, b, c and 2 more targets: no provider\n\nf: its own\nf: marked failing\n") || strings.Count(text, "no provider") != 1 {
		t.Error(text)
	}
	if text = statusText(&d, true, screen{columns: 100}); !strings.Contains(text, "\na: no provider\n") || strings.Count(text, "no provider") != 5 {
		t.Error(text)
	}
}
