package targets

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"
	"pgregory.net/rapid"

	"poold/internal/captcha"
	"poold/internal/targets/syntax"
)

// compiled is the schema, which is itself held against that of the draft.
func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("pools.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("pools.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// asEditorsSee turns a file into what a schema is held against: references are
// texts. ok is false where the file has no tree.
func asEditorsSee(data []byte) (doc any, ok bool) {
	node, problem := syntax.Document(data)
	if problem != nil {
		return nil, false
	}
	return plainValue(node), true
}

func plainValue(n *yaml.Node) any {
	switch n.Kind {
	case yaml.MappingNode:
		all := map[string]any{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			all[n.Content[i].Value] = plainValue(n.Content[i+1])
		}
		return all
	case yaml.SequenceNode:
		all := []any{}
		for _, item := range n.Content {
			all = append(all, plainValue(item))
		}
		return all
	case yaml.AliasNode:
		return nil
	}
	switch n.ShortTag() {
	case "!!int", "!!float", "!!bool", "!!null":
		var v any
		if n.Decode(&v) != nil || v == math.Inf(1) {
			return n.Value
		}
		return v
	}
	return n.Value
}

// readsAlone reports whether every key of a file is valid alone, without the rules between
// keys.
func readsAlone(data []byte) bool {
	node, problem := syntax.Document(data)
	if problem != nil {
		return false
	}
	r := &reader{}
	pools.read(value{r: r, node: node, line: node.Line}, reflect.ValueOf(new(file)).Elem())
	return len(r.problems) == 0
}

// The schema accepts every good file. It refuses all bad ones except those listed here, whose
// faults a schema cannot express.
func TestSchemaOverFiles(t *testing.T) {
	s := compiled(t)
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) < 50 {
		t.Fatalf("found %d files, err %v", len(files), err)
	}
	var taken []string
	for _, file := range append(files, "../../pools.yaml", "../../pools.example.yaml") {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		doc, ok := asEditorsSee(data)
		if !ok {
			continue // an editor tells of faults of the syntax by itself
		}
		err = s.Validate(doc)
		name, bad := strings.CutPrefix(strings.TrimSuffix(filepath.Base(file), ".yaml"), "bad-")
		switch {
		case bad && err == nil:
			taken = append(taken, name)
		case !bad && err != nil:
			t.Errorf("%s: %v", file, err)
		}
	}
	want := []string{"aged", "dedup-empty", "dedup-escape", "dedup-host", "dedup-redis", "direction", "duplicate-keys", "duplicate-names", "fields-by-type",
		"history-dynamodb", "history-keep", "history-none", "history-postgres", "listen-without-keys", "listen", "no-owner", "providers-no-key",
		"redis-addresses", "redis-cluster-db", "redis-comma", "redis-db", "redis-embedded-sentinel", "redis-empty", "redis-host",
		"redis-mixed", "redis-scheme", "redis-unix-sentinel", "simulated-beside", "simulated-twice"}
	if !slices.Equal(taken, want) {
		t.Errorf("the schema takes these bad files:\n%q\nwant\n%q", taken, want)
	}
}

const publishedSchema = "../../docs/pools.schema.json"

// The schema that the shipped files name in their first line is the one of this program.
func TestSchemaIsPublished(t *testing.T) {
	if *update {
		if err := os.WriteFile(publishedSchema, Schema(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	published, err := os.ReadFile(publishedSchema)
	if err != nil || !bytes.Equal(published, Schema()) {
		t.Errorf("%s is not what `poold schema` prints: go test ./internal/targets -run TestSchemaIsPublished -update (%v)", publishedSchema, err)
	}
	for _, file := range []string{"pools.yaml", "pools.example.yaml"} {
		data, err := os.ReadFile("../../" + file)
		if err != nil || !bytes.HasPrefix(data, []byte("# yaml-language-server: $schema=docs/pools.schema.json\n")) {
			t.Errorf("%s does not name its schema in its first line (%v)", file, err)
		}
		if _, err := Parse(file, data, nil); err != nil {
			t.Errorf("%v", err)
		}
	}
	if data, err := os.ReadFile("../../pools.example.yaml"); err != nil || bytes.Count(data, []byte("\n")) != 12 {
		t.Errorf("the example has %d lines, want 12 (%v)", bytes.Count(data, []byte("\n")), err)
	}
}

// Every example of pools.yaml in README and docs is as the schema wants it. One that shows
// some sections alone is completed with those of the shipped example; one that is no
// pools.yaml says so in a first line such as "# compose.yaml".
func TestSchemaOverDocs(t *testing.T) {
	s := compiled(t)
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("../../pools.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	least, _ := asEditorsSee(example)
	checked := 0
	for _, page := range append(pages, "../../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range regexp.MustCompile("(?ms)^```ya?ml(?: add)?\n(.*?)^```$").FindAllSubmatch(text, -1) {
			if regexp.MustCompile(`\A# [a-z.-]+\.ya?ml\n`).Match(block[1]) && !bytes.HasPrefix(block[1], []byte("# pools.yaml\n")) {
				continue
			}
			checked++
			doc, ok := asEditorsSee(block[1])
			shown, isMapping := doc.(map[string]any)
			if !ok || !isMapping {
				t.Errorf("%s: no mapping:\n%s", page, block[1])
				continue
			}
			for section, value := range least.(map[string]any) {
				if _, given := shown[section]; !given {
					shown[section] = value
				}
			}
			if err := s.Validate(shown); err != nil {
				t.Errorf("%s: %v\n%s", page, err, block[1])
			}
		}
	}
	if checked == 0 {
		t.Error("no example was found: this test looks at nothing")
	}
}

// drawn is a file that is made from the table: all values are good by themselves,
// but for one where a fault is drawn.
type drawn struct {
	*rapid.T
	fault func(k kind) []string // texts that are no good value of a kind
	left  bool                  // the fault is still to be placed
	what  string                // where it was
}

// good has values of the kinds whose texts no pattern describes.
var good = map[string][]string{
	"body_budget": {"4MiB", "4096KiB", "256MiB", "3GiB"},
	"listen":      {"127.0.0.1:8080", ":80"}, "url": {"https://solver.example.com/a/", "http://127.0.0.1:9"},
	"redis.url":    {"embedded", "redis://a:1,redis://b:2", "unix:///run/redis.sock"},
	"callback_url": {"", "https://pools.example.com"}, "pageurl": {"https://staging.example.com/login?a=b"},
	"proxy": {"", "other.example.com:1", "u:p@h:1"}, "targets": {"staging-*", "a"}, "rate": {"20/s", "0.5/m", "500/h"},
	"pages": {"https://*.example.com/*", "http://[::1]:*/a"}, "dedup.url": {"", "postgres://u:p@h/d", "postgresql:///d?host=/run"},
	"endpoint": {"", "http://127.0.0.1:8000"},
	"cron":     {"55 8 * * 1-5", "@daily", "CRON_TZ=Asia/Tokyo 0 8 * * *"},
}

// value draws the text of a value in flow style. key is the one that it is for.
func (d *drawn) value(k kind, key string) string {
	if d.left && rapid.IntRange(0, 5).Draw(d.T, "fault here") == 0 {
		if bad := d.fault(k); len(bad) > 0 {
			d.left = false
			text := rapid.SampledFrom(bad).Draw(d.T, "fault")
			d.what = key + ": " + text
			return text
		}
	}
	switch k := k.(type) {
	case section:
		return "{" + strings.Join(d.fields(k), ", ") + "}"
	case mapping:
		names := rapid.SliceOfNDistinct(rapid.StringMatching(k.form.String()), 1, 3, rapid.ID[string]).Draw(d.T, "names")
		for i, name := range names {
			names[i] = strconv.Quote(name) + ": " + d.value(k.item, name)
		}
		return "{" + strings.Join(names, ", ") + "}"
	case list:
		return "[" + strings.Join(d.items(k, key), ", ") + "]"
	case numberOr:
		if rapid.Bool().Draw(d.T, "one number") {
			return d.scalar(k.section.fields[0].kind, key)
		}
		return "{" + strings.Join(d.fields(k.section), ", ") + "}"
	}
	text := d.scalar(k, key)
	bare := text
	if strings.ContainsAny(text[:1], `'"`) {
		bare = text[1 : len(text)-1]
	}
	if !strings.ContainsAny(bare, "\"\\}$") && rapid.IntRange(0, 9).Draw(d.T, "by reference") == 0 {
		return `"${UNSET:-` + bare + `}"`
	}
	return text
}

func (d *drawn) fields(s section) (texts []string) {
	for _, f := range s.fields {
		if f.must || rapid.Bool().Draw(d.T, f.key) {
			key := f.key
			switch {
			case key == "url" && f.preset.IsValid():
				key = "redis.url"
			case key == "url" && s.fields[0].key == "backend": // of history too
				key = "dedup.url"
			}
			texts = append(texts, f.key+": "+d.value(f.kind, key))
		}
	}
	return texts
}

func (d *drawn) items(k list, key string) (texts []string) {
	n := rapid.IntRange(0, 3).Draw(d.T, "items")
	if k.set {
		n = 1 // two might be the same
	}
	for range n {
		texts = append(texts, d.value(k.item, key))
	}
	return texts
}

func (d *drawn) scalar(k kind, key string) string {
	switch k := k.(type) {
	case boolean:
		return rapid.SampledFrom([]string{"true", "false", "True"}).Draw(d.T, key)
	case number:
		if k.whole {
			return strconv.Itoa(rapid.IntRange(int(k.lo), int(k.hi)).Draw(d.T, key))
		}
		return strconv.FormatFloat(rapid.Float64Range(k.lo, k.hi).Draw(d.T, key), 'f', 4, 64)
	case duration:
		return time.Duration(rapid.Int64Range(int64(k.lo), int64(k.hi)).Draw(d.T, key)).String()
	case textual:
		switch {
		case k.words != nil:
			return rapid.SampledFrom(k.words).Draw(d.T, key)
		case good[key] != nil:
			return "'" + rapid.SampledFrom(good[key]).Draw(d.T, key) + "'"
		case k.pattern != "":
			return strconv.Quote(rapid.StringMatching(k.pattern).Filter(func(s string) bool { return !strings.Contains(s, "${") }).Draw(d.T, key))
		}
		return rapid.SampledFrom([]string{"some text", "5", "1e3", "true", "'a: b'", "'$${'", "0123456789abcdef"}).Draw(d.T, key)
	}
	d.Fatalf("no values are known for %T", k)
	return ""
}

// faults returns faults that both reader and schema detect.
func faults(k kind) []string {
	switch k := k.(type) {
	case section:
		all := []string{"5", "[]", "'${UNSET:-}'", "{nonsense: 1}", "{1: 1}"}
		if slices.ContainsFunc(k.fields, func(f field) bool { return f.must }) {
			all = append(all, "{}", "null")
		}
		return all
	case mapping:
		return []string{"5", "[]", "{}", "null", "{'A b': null}"}
	case list:
		all := []string{"5", "{a: 1}", "'${UNSET:-}'", "[[]]"}
		if k.set {
			all = append(all, "[]", "null")
		}
		if k.most > 0 {
			all = append(all, "["+strings.Repeat("{cron: '@daily', tokens: 1, for: 1s}, ", k.most+1)+"]")
		}
		return all
	case numberOr:
		return []string{"-1", "1000001", "'5'", "null", "[]", "{nonsense: 1}", "{turnstile: x}"}
	case boolean:
		return []string{"yes", "1", "'true'", "null", "[]", "{}", "'$UNSET'", "'${UN-SET}'"}
	case number:
		if k.whole {
			return []string{fmt.Sprint(k.lo - 1), fmt.Sprint(int(k.hi) + 1), "1.5", "'5'", "null", "[]", "{}", "x", "true"}
		}
		return []string{fmt.Sprint(k.lo - 0.01), fmt.Sprint(k.hi + 0.01), "'0.9'", "null", "[]", "x", "true"}
	case duration:
		return []string{"5", "'5'", "1.5", "-5s", "+5s", "''", "null", "[5s]", "5x", "5s 1m", "s", ".s", "true"}
	case textual:
		all := []string{"[]", "{a: 1}"}
		if k.words != nil || k.pattern != "" {
			all = append(all, "null", "''", "'no such word!'")
		} else if _, rule := k.parse(scalar{}); rule != "" {
			all = append(all, "null", "''")
		}
		return all
	}
	return nil
}

// odd returns values of all kinds, valid for some keys.
func odd(kind) []string {
	return []string{"null", "~", "''", "5", "0", "-1", "1.5", "0.5", "010", "0x10", "1e3", "1_000", ".5", "5.", "+5", ".inf", "true", "TRUE", "yes", "'5'", "'true'",
		"5s", "1.s", ".5m", "1h30m", "1us", "1µs", "1d", "'0'", "20/s", "1/h", "00/s", "'${UNSET:-5}'", "'${UNSET:-}'", "'x${UNSET:-5s}'", "'$${UNSET}'", "'${UNSET:-$5}'",
		"[]", "[a]", "[1, 1.0]", "[true, True]", "[null]", "{}", "{a: 1}", "{per_day: 5}", "2026-01-01", "12:30", "'a b'", "embedded", "@daily", "h:1"}
}

// What is good by itself is so to reader and schema; a fault that both can see,
// anywhere in the file, is one to both.
func TestSchemaAgainstReader(t *testing.T) {
	s := compiled(t)
	rapid.Check(t, func(rt *rapid.T) {
		d := &drawn{T: rt, fault: faults, left: rapid.Bool().Draw(rt, "with a fault")}
		wanted := d.left
		text := []byte(d.value(pools, "file"))
		sound := !wanted || d.left // the fault found no place
		doc, ok := asEditorsSee(text)
		if !ok && sound {
			rt.Fatalf("no tree: %s", text)
		}
		if err := s.Validate(doc); (err == nil) != sound {
			rt.Errorf("schema, with the fault %q: %v\n%s", d.what, err, text)
		}
		if readsAlone(text) != sound {
			_, err := Parse("pools.yaml", text, nil)
			rt.Errorf("reader, with the fault %q: %v\n%s", d.what, err, text)
		}
	})
}

// The schema accepts every file that the reader accepts.
func TestSchemaTakesWhatTheReaderTakes(t *testing.T) {
	s := compiled(t)
	const enough, most = 10, 50
	taken := 0
	check := func(rt *rapid.T) {
		d := &drawn{T: rt, fault: odd, left: true}
		text := []byte(d.value(pools, "file"))
		doc, ok := asEditorsSee(text)
		if !ok || !readsAlone(text) {
			return
		}
		taken++
		if err := s.Validate(doc); err != nil {
			rt.Errorf("schema, with %q: %v\n%s", d.what, err, text)
		}
	}
	for runs := 0; taken < enough && runs < most; runs++ {
		rapid.Check(t, check)
	}
	if taken < enough {
		t.Errorf("the reader took %d of the files: this test looks at nothing", taken)
	}
}

// The constants for other packages are those of the tags.
func TestConstantsAreThoseOfTheTags(t *testing.T) {
	depth, waste, long := targetSection.field("depth").kind.(number), targetSection.field("max_waste").kind.(number),
		targetSection.field("warm").kind.(list).item.(section).field("for").kind.(duration)
	defaults := new(Target)
	defaultsSection.preset(reflect.ValueOf(defaults).Elem())
	if depth.hi != MostDepth || waste.hi != MostMaxWaste || long != (duration{ShortestWindow, LongestWindow}) ||
		defaults.HitRate != DefaultHitRate || defaults.MaxWaste != DefaultMaxWaste {
		t.Errorf("depth %v, max_waste %v, for %v, defaults %+v", depth, waste, long, defaults)
	}
}

// Every field of an identity is a key with a doc.
func TestEveryFieldOfAnIdentityIsAKey(t *testing.T) {
	fields := reflect.VisibleFields(reflect.TypeFor[captcha.Identity]())
	fields = append(fields, reflect.VisibleFields(reflect.TypeFor[captcha.Picture]())...)
	for _, f := range fields {
		key, doc := f.Tag.Get("key"), f.Tag.Get("doc")
		if f.Name != "Picture" && f.Name != "SHA256" && (doc == "" || !slices.ContainsFunc(solveSection.fields, func(s field) bool { return s.key == key })) {
			t.Errorf("%s has no key or no doc: %s", f.Name, f.Tag)
		}
	}
}
