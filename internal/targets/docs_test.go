package targets

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
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

	"poold/internal/captcha"
	"poold/internal/testkit"
)

// documentedKey is a key with the comment of its field.
type documentedKey struct {
	name, doc string
	kind      reflect.Type
	form      string // the tag
}

// The phrases of a comment that have a meaning.
var (
	rangePhrase   = regexp.MustCompile(`\b([0-9][0-9.]*[a-z]*) to ([0-9][0-9.]*[a-z]*)\.(?: |$)`)
	wordsPhrase   = regexp.MustCompile(`One of ([a-z0-9_, -]+)\.`)
	defaultPhrase = regexp.MustCompile(`Default: (\S+)\.(?: |$)`)
)

func (k documentedKey) words() []string {
	if m := wordsPhrase.FindStringSubmatch(k.doc); m != nil {
		return strings.Split(m[1], ", ")
	}
	return nil
}

func (k documentedKey) limits() (lo, hi string) {
	m := append(rangePhrase.FindStringSubmatch(k.doc), "", "", "") // "" = the comment has no limits
	return m[1], m[2]
}

func (k documentedKey) preset() string {
	return append(defaultPhrase.FindStringSubmatch(k.doc), "", "")[1] // "" = the comment has no default
}

// fieldComments returns the comments of all fields of structs, by the names of struct and field.
func fieldComments(t *testing.T) map[string]string {
	t.Helper()
	comments, owner := map[string]string{}, ""
	sources, err := filepath.Glob("*.go")
	testkit.NoError(t, err)
	for _, source := range append(sources, "../captcha/identity.go") {
		parsed, err := parser.ParseFile(token.NewFileSet(), source, nil, parser.ParseComments)
		testkit.NoError(t, err)
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				owner = n.Name.Name
			case *ast.Field:
				for _, name := range n.Names {
					comments[owner+"."+name.Name] += strings.Join(strings.Fields(n.Doc.Text()), " ") // parameters have none
				}
			}
			return true
		})
	}
	return comments
}

// documented returns the keys of a section, in the order of the struct.
func documented(kind reflect.Type, comments map[string]string) (keys []documentedKey) {
	switch kind {
	case reflect.TypeFor[lifetimes]():
		for _, t := range captcha.Types() {
			doc := fmt.Sprintf("Built in: %.0fs, margin %.0fs.", captcha.Of(t).Lifetime.Seconds(),
				captcha.Of(t).Margin.Seconds())
			keys = append(keys, documentedKey{name: string(t), doc: doc, kind: reflect.TypeFor[life]()})
		}
		return keys
	case reflect.TypeFor[Prices]():
		for _, t := range captcha.SolvableTypes() {
			keys = append(keys, documentedKey{name: string(t), kind: reflect.TypeFor[float64](),
				doc: "What 1000 solves of this type cost; 0 is free. 0 to 1000000."})
		}
		return keys
	}
	refuse := func(string) string { return "" }
	if r, is := reflect.New(kind).Interface().(interface{ refuse(key string) string }); is {
		refuse = r.refuse
	}
	owner := kind.Name()
	if owner == "defaults" {
		owner = "Target"
	}
	for i := range kind.NumField() {
		f := kind.Field(i)
		var found []documentedKey
		if name, options, _ := strings.Cut(f.Tag.Get("yaml"), ","); options == "inline" {
			found = documented(f.Type, comments)
		} else if name != "" {
			found = []documentedKey{{name, comments[owner+"."+f.Name], f.Type, f.Tag.Get("form")}}
		}
		for _, k := range found {
			if kind == reflect.TypeFor[Target]() { // the others cannot be pooled
				k.doc = strings.Replace(k.doc, ", geetest, geetest_v4, image.", ".", 1)
			}
			if refuse(k.name) == "" && !slices.ContainsFunc(keys,
				func(other documentedKey) bool { return other.name == k.name }) {
				keys = append(keys, k)
			}
		}
	}
	return keys
}

const referencePattern = `\$\{([A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?|file:/[^}]*)\}`

// orReference is the schema of a number or a boolean. A text with a reference is valid too. A pattern
// applies only to texts, and a minimum only to numbers.
func orReference(kind string) map[string]any {
	return map[string]any{"type": []string{kind, "string"}, "pattern": referencePattern}
}

func textSchema(required bool) map[string]any {
	if required {
		return map[string]any{"type": []string{"string", "number", "boolean"}, "minLength": 1}
	}
	return map[string]any{"type": []string{"string", "number", "boolean", "null"}}
}

func (k documentedKey) schema(comments map[string]string) map[string]any {
	s := k.typeSchema(comments)
	s["description"] = k.doc
	if preset := k.preset(); preset != "" {
		s["default"] = preset
		if k.kind.Kind() != reflect.String && k.kind != reflect.TypeFor[time.Duration]() {
			s["default"] = json.RawMessage(preset)
		}
	}
	if lo, hi := k.limits(); lo != "" && k.kind != reflect.TypeFor[time.Duration]() {
		s["minimum"], s["maximum"] = json.RawMessage(lo), json.RawMessage(hi)
	}
	return s
}

func (k documentedKey) typeSchema(comments map[string]string) map[string]any {
	required := strings.Contains(k.doc, "Required.")
	words := k.words()
	switch k.kind {
	case reflect.TypeFor[time.Duration]():
		return map[string]any{"type": "string", "pattern": `^(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$|` +
			referencePattern}
	case reflect.TypeFor[Rate]():
		return map[string]any{"type": "string", "pattern": `^(0|[1-9][0-9]*)(\.[0-9]+)?/[smh]$|` + referencePattern}
	case reflect.TypeFor[Prices]():
		s := sectionSchema(k.kind, comments)
		s["type"], s["pattern"], s["minimum"], s["maximum"] = []string{"number", "string", "object"}, referencePattern, 0,
			1_000_000
		return s
	case reflect.TypeFor[lifetimes]():
		return sectionSchema(k.kind, comments)
	case reflect.TypeFor[page](), reflect.TypeFor[[]byte]():
		return textSchema(true)
	case reflect.TypeFor[yaml.Node](): // the targets
		name := strings.Trim(targetName.String(), "^$")
		return map[string]any{"type": "object", "minProperties": 1,
			"propertyNames":        map[string]any{"pattern": "^" + name + "$"},
			"additionalProperties": sectionSchema(reflect.TypeFor[Target](), comments)}
	}
	plain := map[reflect.Kind]string{reflect.Bool: "boolean", reflect.Int: "integer", reflect.Float64: "number"}
	if name, is := plain[k.kind.Kind()]; is {
		return orReference(name)
	}
	switch k.kind.Kind() {
	case reflect.Pointer:
		return sectionSchema(k.kind.Elem(), comments)
	case reflect.Map:
		return map[string]any{"type": []string{"object", "null"},
			"additionalProperties": sectionSchema(k.kind.Elem(), comments)}
	case reflect.Struct:
		return sectionSchema(k.kind, comments)
	case reflect.Slice:
		item := documentedKey{kind: k.kind.Elem(), doc: wordsPhrase.FindString(k.doc), form: k.form}.typeSchema(comments)
		s := map[string]any{"type": []string{"array", "null"}, "items": item}
		if required {
			s["type"], s["minItems"] = "array", 1
		}
		return s
	}
	if words != nil {
		return map[string]any{"anyOf": []any{map[string]any{"enum": words}, map[string]any{"$ref": "#/$defs/reference"}}}
	}
	s := textSchema(required)
	if pattern, _, is := strings.Cut(k.form, " "); is {
		s["pattern"] = pattern + "|" + referencePattern
	}
	return s
}

func sectionSchema(kind reflect.Type, comments map[string]string) map[string]any {
	properties, required := map[string]any{}, []string(nil)
	for _, k := range documented(kind, comments) {
		properties[k.name] = k.schema(comments)
		if strings.Contains(k.doc, "Required.") || strings.Contains(k.doc, "Required in a target.") &&
			kind == reflect.TypeFor[Target]() {
			required = append(required, k.name)
		}
	}
	s := map[string]any{"type": []string{"object", "null"}, "properties": properties, "additionalProperties": false}
	if required != nil {
		s["type"], s["required"] = "object", required
	}
	return s
}

func indented(t *testing.T, schema map[string]any) string {
	t.Helper()
	var text bytes.Buffer
	to := json.NewEncoder(&text)
	to.SetEscapeHTML(false)
	to.SetIndent("", "  ")
	testkit.NoError(t, to.Encode(schema))
	return text.String()
}

// The JSON Schema of the file and the list of the fields of POST /solve come from the structs and
// their comments. They are part of the program, so build again after -update.
func TestSchemaIsPublished(t *testing.T) {
	comments := fieldComments(t)
	s := sectionSchema(reflect.TypeFor[file](), comments)
	s["$schema"], s["title"] = "https://json-schema.org/draft/2020-12/schema", "poold: pools.yaml"
	s["description"] = "What poold keeps ready, and from whom it buys. In any value ${NAME} and ${NAME:-default} are " +
		"replaced from the environment, and ${file:/path} by the content of a file. `poold check` knows the rules between " +
		"keys too."
	s["$defs"] = map[string]any{"reference": map[string]any{"type": "string", "pattern": referencePattern,
		"description": "A value from the environment, ${NAME} or ${NAME:-default}, or from a file, ${file:/path}."}}
	testkit.Published(t, "pools.schema.json", indented(t, s))
	testkit.Published(t, "../../docs/pools.schema.json", indented(t, s))
	fields := map[string]any{}
	for _, k := range documented(reflect.TypeFor[SolveRequest](), comments) {
		// The flags of poold solve show the default themselves.
		doc := strings.TrimSpace(regexp.MustCompile(`Default: \S+\.$|Required( in a target)?\.$`).ReplaceAllString(k.doc, ""))
		if fields[k.name] = map[string]string{"description": doc}; doc == "" {
			t.Errorf("%s has no comment", k.name)
		}
	}
	testkit.Published(t, "solve.schema.json", indented(t, map[string]any{"properties": fields}))
	for _, file := range []string{"pools.yaml", "pools.example.yaml"} {
		data, err := os.ReadFile("../../" + file)
		if err != nil || !bytes.HasPrefix(data, []byte("# yaml-language-server: $schema=docs/pools.schema.json\n")) {
			t.Errorf("%s does not name its schema in its first line (%v)", file, err)
		}
	}
}

// property returns the schema of a field of a request, as a line of the description of the API.
func (k documentedKey) property() string {
	text := "type: " + cmp.Or(map[reflect.Kind]string{reflect.Bool: "boolean", reflect.Int: "integer",
		reflect.Float64: "number", reflect.Slice: "string, contentEncoding: base64"}[k.kind.Kind()], "string")
	if k.words() != nil {
		text += ", enum: [" + strings.Join(k.words(), ", ") + "]"
	}
	if lo, hi := k.limits(); lo != "" {
		text += ", minimum: " + lo + ", maximum: " + hi
	}
	if pattern, _, is := strings.Cut(k.form, " "); is {
		text += ", pattern: '" + pattern + "'"
	}
	said := regexp.MustCompile(` *(Required( in a target)?|One of [^.]*|[0-9.]+ to [0-9.]+|\w+( and \w+)* only)\.`)
	doc := strings.TrimSpace(said.ReplaceAllString(k.doc, ""))
	return fmt.Sprintf("        %s: {%s, description: '%s'}\n", k.name, text, strings.ReplaceAll(doc, "'", "''"))
}

// cell returns a field of a request for the table in docs/solve.md.
func (k documentedKey) cell() string {
	var notes []string
	if k.kind == reflect.TypeFor[picture]() {
		notes = []string{"base64, at most 1 MiB of bytes"}
	} else if k.words() != nil {
		notes = []string{"`" + strings.Join(k.words(), "`, `") + "`"}
	}
	if preset := k.preset(); preset != "" {
		lo, hi := k.limits()
		notes = append(notes, strings.TrimPrefix(lo+" to "+hi+", default "+preset, " to , "))
	}
	if notes == nil {
		return "`" + k.name + "`"
	}
	return "`" + k.name + "` (" + strings.Join(notes, ", ") + ")"
}

// The description of the API and docs/solve.md have the fields that each type has in a request.
func TestSchemaOfRequests(t *testing.T) {
	const api, page = "../httpapi/openapi/openapi.yaml", "../../docs/solve.md"
	described, err := os.ReadFile(api)
	testkit.NoError(t, err)
	shown, err := os.ReadFile(page)
	testkit.NoError(t, err)
	keys := documented(reflect.TypeFor[SolveRequest](), fieldComments(t))
	each := func(say func(documentedKey) string, between string, has func(key string) bool) string {
		var all []string
		for _, k := range keys {
			if k.name != "type" && has(k.name) {
				all = append(all, say(k))
			}
		}
		return strings.Join(all, between)
	}
	onPage := func(key string) bool { return len(typesWith[key]) == len(typesWith["pageurl"]) }
	schemas := map[string]string{"site": "      description: The fields of every type except image.\n" +
		"      allOf: [{$ref: '#/components/schemas/SolveOptions'}]\n      properties:\n" +
		each(documentedKey.property, "", onPage)}
	rows := "| `type` | Fields |\n|---|---|\n"
	for _, kind := range captcha.Kinds {
		parent, must := "Site", kind.Must()
		if kind.Type == captcha.Image {
			parent, must = "Options", []string{"image"}
		}
		own := func(key string) bool { return slices.Contains(typesWith[key], kind.Type) && !onPage(key) }
		schemas[strings.ReplaceAll(string(kind.Type), "_", "")] = fmt.Sprintf("      type: object\n"+
			"      allOf: [{$ref: '#/components/schemas/Solve%s'}]\n      unevaluatedProperties: false\n"+
			"      required: [type, %s]\n      properties:\n        type: {type: string, enum: [%s]}\n",
			parent, strings.Join(must, ", "), kind.Type) + each(documentedKey.property, "", own)
		isMust := func(key string) bool { return slices.Contains(must, key) }
		rows += "| `" + string(kind.Type) + "` | " + strings.TrimSuffix(each(documentedKey.cell, ", ", isMust)+"; "+
			each(documentedKey.cell, ", ", func(key string) bool { return own(key) && !isMust(key) }), "; ") + " |\n"
	}
	rows += "| all but `image` | " + each(documentedKey.cell, ", ",
		func(key string) bool { return onPage(key) && key != "pageurl" }) + " |\n| every request | " +
		each(documentedKey.cell, ", ", func(key string) bool { return typesWith[key] == nil }) + " |\n"
	blocks := regexp.MustCompile(`(?m)^    Solve(\w+):\n((?: {6}.*\n)+)`)
	found := 0
	testkit.Published(t, api, blocks.ReplaceAllStringFunc(string(described), func(block string) string {
		name := blocks.FindStringSubmatch(block)[1]
		body, known := schemas[strings.ToLower(name)]
		if !known {
			return block
		}
		found++
		return "    Solve" + name + ":\n" + body
	}))
	testkit.Equal(t, "schemas of requests", found, len(schemas))
	from, table, _ := strings.Cut(string(shown), "| `type` | Fields |\n")
	_, rest, _ := strings.Cut(table, "\n\n")
	testkit.Published(t, page, from+rows+"\n"+rest)
}

// kindName returns the name of a kind of value for people, or its form if the comment does not have it.
func (k documentedKey) kindName() string {
	_, form, _ := strings.Cut(k.form, " ")
	switch {
	case form != "" && !strings.Contains(k.doc, form):
		return map[bool]string{true: "list, each "}[k.kind.Kind() == reflect.Slice] + form
	case k.words() != nil && k.kind.Kind() != reflect.Slice:
		return "`" + strings.Join(k.words(), "`, `") + "`"
	case k.kind == reflect.TypeFor[time.Duration]():
		return "duration"
	case k.kind == reflect.TypeFor[Rate]():
		return "rate"
	case k.kind == reflect.TypeFor[Prices]():
		return "number or mapping"
	}
	return map[reflect.Kind]string{
		reflect.Bool: "boolean", reflect.Int: "number", reflect.Float64: "number", reflect.Slice: "list",
		reflect.Struct: "section", reflect.Pointer: "section", reflect.Map: "section", reflect.String: "text",
	}[k.kind.Kind()]
}

// table lists the keys of a section, and then the keys of the sections inside it.
func table(out *strings.Builder, path string, kind reflect.Type, comments map[string]string) {
	if strings.Contains(path, ".") {
		fmt.Fprintf(out, "`%s`:\n\n", path)
	}
	inner := map[string]reflect.Type{}
	inherited := documented(reflect.TypeFor[defaults](), comments)
	for _, k := range documented(kind, comments) {
		if path == "targets" && slices.ContainsFunc(inherited,
			func(other documentedKey) bool { return other.name == k.name }) {
			continue // described under defaults
		}
		shown := wordsPhrase.ReplaceAllString(k.doc, "")
		form := strings.NewReplacer(" (text)", "", " (section)", "").Replace(" (" + k.kindName() + ")")
		out.WriteString(testkit.Wrapped(fmt.Sprintf("- `%s`%s: %s", k.name, form, shown), "  "))
		below := k.kind
		if below.Kind() == reflect.Slice {
			below = below.Elem()
		}
		if below.Kind() == reflect.Struct && len(documented(below, comments)) > 0 && below != reflect.TypeFor[Prices]() &&
			below != reflect.TypeFor[life]() &&
			(below != reflect.TypeFor[Budget]() && below != reflect.TypeFor[Money]() || path == "defaults") {
			inner[path+"."+k.name] = below
		}
	}
	if path == "targets" {
		return // the keys below have the same tables as in the defaults
	}
	for _, name := range slices.Sorted(maps.Keys(inner)) {
		out.WriteString("\n")
		table(out, name, inner[name], comments)
	}
}

// docs/reference.md is generated from the comments of the structs, with examples of sections
// from testdata/reference.yaml, which is a valid file.
func TestReferenceIsPublished(t *testing.T) {
	const mark = "<!-- The rest of this page is generated: go test ./internal/targets -run TestReference -update -->\n"
	const page = "../../docs/reference.md"
	comments := fieldComments(t)
	text, err := os.ReadFile(page)
	testkit.NoError(t, err)
	example, err := os.ReadFile("testdata/reference.yaml")
	testkit.NoError(t, err)
	mustParse(t, string(example), lookupOf("CAPTCHAAI_API_KEY", "k", "POOLD_KEY", "0123456789abcdef", "DATABASE_URL",
		"postgres://h/d"))
	intro, _, found := strings.Cut(string(text), mark)
	if !found {
		t.Fatalf("%s has no line %s", page, mark)
	}
	out := new(strings.Builder)
	out.WriteString(intro + mark)
	for _, k := range documented(reflect.TypeFor[file](), comments) {
		doc := k.doc
		if k.name == "targets" {
			doc += " A target has these keys, and any key of `defaults`."
		}
		fmt.Fprintf(out, "\n## %s\n\n%s\n", k.name, testkit.Wrapped(doc, ""))
		kind := k.kind
		switch {
		case k.name == "targets":
			kind = reflect.TypeFor[Target]()
		case kind.Kind() == reflect.Slice, kind.Kind() == reflect.Pointer, kind == reflect.TypeFor[Owners]():
			kind = kind.Elem()
		}
		if kind.Kind() == reflect.Struct || kind.Kind() == reflect.Map {
			table(out, k.name, kind, comments)
			out.WriteString("\n")
		}
		block := regexp.MustCompile(`(?m)^` + k.name + `:.*\n(?:[ #].*\n)*`).Find(example)
		if block != nil {
			fmt.Fprintf(out, "```yaml\n%s```\n", block)
		}
	}
	testkit.Published(t, page, out.String())
}

// sectionText has a file with one more key for each struct with ranges, words or defaults.
var sectionText = map[reflect.Type]string{
	reflect.TypeFor[Server]():    "server: {%s}\n",
	reflect.TypeFor[Key]():       "server: {keys: [{%s}]}\n",
	reflect.TypeFor[Provider]():  "providers: [{%s}]\n",
	reflect.TypeFor[Redis]():     "redis: {%s}\n",
	reflect.TypeFor[Budget]():    "defaults: {budget: {%s}}\n",
	reflect.TypeFor[life]():      "types: {turnstile: {%s}}\n",
	reflect.TypeFor[defaults]():  "defaults: {%s}\n",
	reflect.TypeFor[Target]():    "targets: {a: {%s}}\n",
	reflect.TypeFor[Warm]():      "defaults: {warm: [{%s}]}\n",
	reflect.TypeFor[Dedup]():     "dedup: {%s}\n",
	reflect.TypeFor[History]():   "history: {%s}\n",
	reflect.TypeFor[Prices]():    "providers: [{price_per_1000: {%s}}]\n",
	reflect.TypeFor[file]():      "%s\n",
	reflect.TypeFor[Solve]():     "solve: {%s}\n",
	reflect.TypeFor[Owner]():     "owners: {a: {%s}}\n",
	reflect.TypeFor[TLS]():       "server: {tls: {%s}}\n",
	reflect.TypeFor[lifetimes](): "types: {%s}\n",
}

// The range, the words and the default that a comment names agree with the code, and each key has a
// comment.
func TestDocsAgreeWithTheCode(t *testing.T) {
	comments := fieldComments(t)
	presets := map[reflect.Type]reflect.Value{}
	var f file
	f.preset()
	var p Provider
	p.preset()
	for _, v := range []any{f, f.Server, f.Redis, f.Dedup, f.History, p, f.Defaults} {
		presets[reflect.TypeOf(v)] = reflect.ValueOf(v)
	}
	checked := 0
	for kind, text := range sectionText {
		// A value is wrong if Parse says what it must be.
		refused := func(key, value string) bool {
			_, err := Parse("pools.yaml", fmt.Appendf(nil, text, key+": "+value), References{})
			return err != nil && regexp.MustCompile(`\b`+key+
				`: (must be (an? |[a-z0-9_]+,|[a-z0-9_]+ or)|needs a unit)`).MatchString(err.Error())
		}
		for _, k := range documented(kind, comments) {
			if k.doc == "" || !strings.HasSuffix(k.doc, ".") {
				t.Errorf("%s.%s has no comment that ends with a full stop: %q", kind, k.name, k.doc)
			}
			if lo, hi := k.limits(); lo != "" {
				checked++
				if refused(k.name, lo) && k.name != "first_poll" || refused(k.name, hi) || !refused(k.name, beyond(lo, -1)) ||
					!refused(k.name, beyond(hi, 1)) {
					t.Errorf("%s.%s is not from %s to %s", kind, k.name, lo, hi)
				}
			}
			for _, word := range k.words() {
				checked++
				if k.kind.Kind() == reflect.Slice {
					word = "[" + word + "]"
				}
				if refused(k.name, word) || !refused(k.name, "nonsense") {
					t.Errorf("%s.%s is not one of %s", kind, k.name, k.words())
				}
			}
			if preset := k.preset(); preset != "" && presets[kind].IsValid() {
				checked++
				for i, name := range keysOf(kind).names {
					if name != k.name {
						continue
					}
					v := presets[kind].FieldByIndex(keysOf(kind).fields[i].Index)
					got := fmt.Sprint(v)
					if v.Kind() == reflect.String {
						got = v.String()
					} else if d, is := v.Interface().(time.Duration); is {
						got = regexp.MustCompile(`([hm])(0m)?0s$`).ReplaceAllString(d.String(), "$1") // 24h, not 24h0m0s
					}
					testkit.Equal(t, fmt.Sprintf("the default in the comment of %s.%s", kind, k.name), preset, got)
					break
				}
			}
		}
	}
	testkit.AtLeast(t, "phrases that were checked", checked, 80)
}

// beyond returns a value that is a little below or above a number or a duration.
func beyond(limit string, sign int) string {
	if d, err := time.ParseDuration(limit); err == nil && limit != "0" {
		return (d + time.Duration(sign)*time.Millisecond).String()
	}
	n, _ := strconv.ParseFloat(limit, 64)
	if strings.Contains(limit, ".") {
		return strconv.FormatFloat(n+float64(sign)*0.0001, 'f', -1, 64)
	}
	return strconv.Itoa(int(n) + sign)
}

func compiledSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	testkit.NoError(t, err)
	c := jsonschema.NewCompiler()
	testkit.NoError(t, c.AddResource("pools.schema.json", doc))
	s, err := c.Compile("pools.schema.json")
	testkit.NoError(t, err)
	return s
}

// asEditorsSee decodes a file into the values that an editor checks against the schema, with
// references as texts. It returns false if the file is not valid YAML.
func asEditorsSee(data []byte) (doc any, ok bool) {
	node, problem := document(data)
	if problem != nil || bytes.ContainsAny(data, "*&") && node.Decode(&doc) != nil {
		return nil, false
	}
	return doc, node.Decode(&doc) == nil
}

// The schema accepts every valid file. It refuses all invalid files except those in the list,
// because a schema cannot express their faults.
func TestSchemaJudgesTheTestFiles(t *testing.T) {
	s := compiledSchema(t)
	good := caseFiles(t, "testdata/good.txtar")
	for _, file := range []string{"testdata/good-full.yaml", "testdata/good-minimal.yaml", "testdata/reference.yaml",
		"../../pools.yaml", "../../pools.example.yaml"} {
		data, err := os.ReadFile(file)
		testkit.NoError(t, err)
		good = append(good, caseFile{name: file, data: data})
	}
	for _, file := range good {
		if doc, ok := asEditorsSee(file.data); !ok || s.Validate(doc) != nil {
			t.Errorf("%s: %v", file.name, s.Validate(doc))
		}
	}
	var taken []string
	for _, file := range caseFiles(t, "testdata/bad.txtar") {
		// editors report syntax errors without the schema
		if doc, ok := asEditorsSee(file.data); ok && s.Validate(doc) == nil {
			taken = append(taken, file.name)
		}
	}
	want := strings.Fields("aliases budgets-in-money dedup-empty dedup-escape dedup-host dedup-redis direction " +
		"duplicate-names fields-by-type history-dynamodb history-keep history-none history-postgres listen-without-keys " +
		"listen no-owner providers-no-key redis-addresses redis-cluster-db redis-comma redis-db redis-parameter " +
		"redis-embedded-sentinel redis-empty redis-host redis-mixed redis-scheme redis-unix-sentinel " +
		"simulated-beside keys of one caller invisible characters methods and short keys " +
		"redis-sentinel-password-without-sentinels redis-sentinel-user-without-password redis-certificates-without-tls " +
		"redis-certificate-without-key")
	got := strings.Fields(strings.Join(taken, " "))
	for _, word := range got {
		if !slices.Contains(want, word) {
			t.Errorf("the schema takes the bad file %q: if it cannot express the fault, list it here", word)
		}
	}
	testkit.Equal(t, "words of bad files that the schema takes", len(got), len(want))
}

// The schema accepts every example of pools.yaml in README and docs. An example with some sections
// gets the other sections from the shipped example. Examples of other files begin with a line such
// as "# compose.yaml".
func TestSchemaAcceptsTheExamplesOfTheDocs(t *testing.T) {
	s := compiledSchema(t)
	pages, err := filepath.Glob("../../docs/*.md")
	testkit.NoError(t, err)
	least := map[string]any{}
	example, err := os.ReadFile("../../pools.example.yaml")
	testkit.NoError(t, cmp.Or(err, yaml.Unmarshal(example, &least)))
	checked := 0
	for _, page := range append(pages, "../../README.md") {
		text, err := os.ReadFile(page)
		testkit.NoError(t, err)
		for _, block := range regexp.MustCompile("(?ms)^```ya?ml(?: add)?\n(.*?)^```$").FindAllSubmatch(text, -1) {
			if regexp.MustCompile(`\A# [a-z.-]+\.ya?ml\n`).Match(block[1]) &&
				!bytes.HasPrefix(block[1], []byte("# pools.yaml\n")) {
				continue
			}
			checked++
			doc, ok := asEditorsSee(block[1])
			shown, isMapping := doc.(map[string]any)
			if !ok || !isMapping {
				t.Errorf("%s: no mapping:\n%s", page, block[1])
				continue
			}
			for section, value := range least {
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
