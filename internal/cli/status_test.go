package cli_test

import (
	_ "embed"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode"

	"poold/internal/status"
)

// someStatus has targets in each state.
//
//go:embed testdata/status.json
var someStatus string

// statusTable is what `poold status` prints of it.
//
//go:embed testdata/status.txt
var statusTable string

// `poold status` shows the alarms first, then targets with problems before others.
func TestStatusTable(t *testing.T) {
	d := &daemon{answers: map[string]string{"GET /status.json": someStatus}}
	code, stdout, stderr := d.run(t, "status")
	if code != 0 || stdout != statusTable || stderr != "" || d.asked[0] != "GET /status.json" {
		t.Errorf("exit %d, asked %s\n%s%s", code, d.asked, stdout, stderr)
	}
	d.answers[""] = `{"config":{"ok":false,"loaded_at":"t","problems":["pools.yaml:4: depth"]},` +
		`"redis":{"mode":"single","reason":"away"}}`
	delete(d.answers, "GET /status.json")
	_, stdout, _ = d.run(t, "status")
	for _, part := range []string{"in use:\npools.yaml:4: depth\n", "no target matches\n",
		"redis  single, not ok: away\n"} {
		if !strings.Contains(stdout, part) {
			t.Errorf("no %q in\n%s", part, stdout)
		}
	}
}

// A glob selects targets, in the JSON, too. A single match by name is shown with all its figures.
func TestStatusOfSome(t *testing.T) {
	d := &daemon{answers: map[string]string{"GET /status.json": someStatus}}
	for args, c := range map[string]struct {
		names []string
		all   bool
	}{
		"*[nt]": {[]string{"login", "checkout"}, false},
		"login": {[]string{"login"}, true},
		"ch*":   {[]string{"checkout"}, true},
		"none":  {nil, false},
	} {
		_, printed, _ := d.run(t, append([]string{"status"}, split(args)...)...)
		_, stdout, _ := d.run(t, append([]string{"status", "--json"}, split(args)...)...)
		var document status.Document
		err := json.Unmarshal([]byte(stdout), &document)
		var names []string
		for i := range document.Targets {
			names = append(names, document.Targets[i].Name)
		}
		if err != nil || document.Version != "1.2.3" || !slices.Equal(names, c.names) ||
			strings.Contains(printed, "\ntokens ") != c.all {
			t.Errorf("%s: %v %v\n%s", args, err, names, printed)
		}
		if strings.ContainsFunc(printed, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
			t.Errorf("%q", printed)
		}
	}
	if _, stdout, _ := d.run(t, "status", "--json"); stdout != someStatus ||
		d.asked[len(d.asked)-1] != "GET /status.json" {
		t.Errorf("the document is not as it came: %s", stdout)
	}
}
