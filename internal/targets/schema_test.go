package targets

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"
	"pgregory.net/rapid"

	"poold/internal/captcha"
	"poold/internal/targets/syntax"
)

// compiledSchema checks the schema against the schema of its draft, and returns the compiled
// schema.
func compiledSchema(t *testing.T) *jsonschema.Schema {
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

// asEditorsSee decodes a file into the values that an editor checks against the schema, with
// references as texts. It returns false if the file is not valid YAML.
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

// readsAlone reports whether every key of a file is valid by itself. It ignores the rules that
// involve several keys.
func readsAlone(data []byte) bool {
	node, problem := syntax.Document(data)
	if problem != nil {
		return false
	}
	r := &reader{}
	pools.read(value{r: r, node: node, line: node.Line}, reflect.ValueOf(new(file)).Elem())
	return len(r.problems) == 0
}

// The schema accepts every valid file. It refuses all invalid files except those in the list,
// because a schema cannot express their faults.
func TestSchemaJudgesTheTestFiles(t *testing.T) {
	s := compiledSchema(t)
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
			continue // editors report syntax errors without the schema
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
	want := []string{"aged", "currency", "dedup-empty", "dedup-escape", "dedup-host", "dedup-redis", "direction", "duplicate-keys", "duplicate-names", "fields-by-type",
		"history-dynamodb", "history-keep", "history-none", "history-postgres", "listen-without-keys", "listen", "no-owner", "providers-no-key",
		"redis-addresses", "redis-cluster-db", "redis-comma", "redis-db", "redis-embedded-sentinel", "redis-empty", "redis-host",
		"redis-mixed", "redis-scheme", "redis-unix-sentinel", "simulated-beside", "simulated-twice"}
	if !slices.Equal(taken, want) {
		t.Errorf("the schema takes these bad files:\n%q\nwant\n%q", taken, want)
	}
}

const publishedSchema = "../../docs/pools.schema.json"

// The first line of each shipped file contains the address of the published schema. The published
// schema equals Schema.
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
		if _, err := Parse(file, data, lookupOf("CAPTCHAAI_API_KEY", "k")); err != nil {
			t.Errorf("%v", err)
		}
		if lines := bytes.Count(data, []byte("\n")); lines > 40 {
			t.Errorf("%s has %d lines, and a newcomer reads 40 at most", file, lines)
		}
	}
}

// pools.example.yaml is for a first run with real tokens. Without the key of an account the file is
// refused. A budget limits the purchases. README shows the file.
func TestExampleIsAFirstRealRun(t *testing.T) {
	data, err := os.ReadFile("../../pools.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Parse("pools.example.yaml", data, References{}); err == nil || !strings.Contains(err.Error(), "CAPTCHAAI_API_KEY") {
		t.Errorf("without a key: %v", err)
	}
	set, err := Parse("pools.example.yaml", data, lookupOf("CAPTCHAAI_API_KEY", "k"))
	if err != nil {
		t.Fatal(err)
	}
	if own := set.Targets[0]; set.Simulated() || own.SimulatedOnly || own.Budget.PerDay == 0 || own.Budget.PerHour == 0 {
		t.Errorf("%+v", own)
	}
	_, shown, _ := bytes.Cut(data, []byte("\n"))
	readme, err := os.ReadFile("../../README.md")
	if err != nil || !bytes.Contains(readme, append([]byte("```yaml add\n"), append(shown, "```\n"...)...)) {
		t.Errorf("README does not show pools.example.yaml without its first line (%v)", err)
	}
}

// The schema accepts every example of pools.yaml in README and docs. An example with some sections
// gets the other sections from the shipped example. Examples of other files begin with a line such
// as "# compose.yaml".
func TestSchemaAcceptsTheExamplesOfTheDocs(t *testing.T) {
	s := compiledSchema(t)
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

// Parse and the schema accept the same values. Both refuse a fault that both can detect, wherever
// it is in the file.
func TestSchemaAgreesWithParse(t *testing.T) {
	s := compiledSchema(t)
	rapid.Check(t, func(rt *rapid.T) {
		d := &drawn{T: rt, fault: faults, left: rapid.Bool().Draw(rt, "with a fault")}
		wanted := d.left
		text := []byte(d.value(pools, "file"))
		sound := !wanted || d.left // the drawn file had no place for the fault
		doc, ok := asEditorsSee(text)
		if !ok && sound {
			rt.Fatalf("no tree: %s", text)
		}
		if err := s.Validate(doc); (err == nil) != sound {
			rt.Errorf("schema, with the fault %q: %v\n%s", d.what, err, text)
		}
		if readsAlone(text) != sound {
			_, err := Parse("pools.yaml", text, References{})
			rt.Errorf("reader, with the fault %q: %v\n%s", d.what, err, text)
		}
	})
}

// The schema accepts every random file that the reader accepts.
func TestSchemaAcceptsWhatParseAccepts(t *testing.T) {
	s := compiledSchema(t)
	const enough, most = 10, 50
	taken := 0
	check := func(rt *rapid.T) {
		d := &drawn{T: rt, fault: oddValues, left: true}
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
