package targets

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// reader collects the problems and warnings of one file or request.
type reader struct {
	file     string // name of the file in messages; "" for a request
	refs     References
	request  bool // whether this is a request: all texts are in quotes, and nothing is replaced
	hasImage bool // whether the caller of SolveOf already has the picture
	set      *Set // the sections that targets depend on
	problems Problems
	warnings Problems
	keys     map[reflect.Type][]yamlKey
}

// place is one value of the file: its position for messages, and the values inside it.
type place struct {
	r      *reader
	parent *place
	node   *yaml.Node // nil if the value is not in the file
	path   string     // path of keys, such as targets.login.depth; "" for the whole file
	key    string     // the last key of the path; "" for the whole file and for list items

	line, column int               // of the key, or of the item of a list
	keys         map[string]*place // the values of a section
	items        []*place          // the values of a list
	defaults     *place            // the section from which missing keys are inherited; nil = none

	value   string   // a scalar, with replaced references
	null    bool     // the scalar is empty
	names   []string // the references of the scalar: names of variables, or file: and a path
	read    bool     // the value is a mapping or null, and the field keys is complete
	bad     bool     // the value or a value inside it is invalid
	problem int      // index of the last problem of this value
}

// A struct of the file may have these methods. preset sets the defaults, refuse says why a key is
// not allowed in this section, and validate checks the rules of the section.
type (
	presetter interface{ preset() }
	refuser   interface{ refuse(key string) string }
	validator interface{ validate(at *place) }
)

// fail reports a problem that makes the file invalid.
func (at *place) fail(format string, args ...any) {
	at.problem = len(at.r.problems)
	for p := at; p != nil; p = p.parent {
		p.bad = true
	}
	at.r.problems = append(at.r.problems, at.remark(format, args))
}

// warn reports an unusual but allowed setting.
func (at *place) warn(format string, args ...any) {
	at.r.warnings = append(at.r.warnings, at.remark(format, args))
}

// warnOfDemo reports a reason why the daemon buys only simulated tokens.
func (at *place) warnOfDemo(format string, args ...any) {
	at.warn(format, args...)
	at.r.warnings[len(at.r.warnings)-1].demo = true
}

func (at *place) remark(format string, args []any) Problem {
	text := strings.TrimPrefix(at.path+": ", ": ") + fmt.Sprintf(format, args...)
	return Problem{File: at.r.file, Line: at.line, Text: text, column: at.column}
}

// at returns the place of the first of these keys that the file contains. Without any of them it
// returns a place for the last key, with the line of the section.
func (at *place) at(keys ...string) *place {
	for _, key := range keys {
		if at.keys[key] != nil {
			return at.keys[key]
		}
	}
	return at.child(keys[len(keys)-1])
}

func (at *place) child(key string) *place {
	part := pathPart(key)
	return &place{r: at.r, parent: at, path: strings.TrimPrefix(at.path+"."+part, "."), key: part, line: at.line, column: at.column}
}

// has reports whether the section contains the key, with a valid or an invalid value.
func (at *place) has(key string) bool { return at.keys[key] != nil }

// given reports whether the section or its defaults contain the key.
func (at *place) given(key string) bool {
	return at.has(key) || at.defaults != nil && at.defaults.has(key)
}

// ok reports whether none of these keys has an invalid value, here or in the defaults. A rule of
// several keys is not checked otherwise, because the invalid value is already reported.
func (at *place) ok(keys ...string) bool {
	return !slices.ContainsFunc(keys, func(key string) bool {
		return at.has(key) && at.keys[key].bad || !at.has(key) && at.defaults != nil && !at.defaults.ok(key)
	})
}

// require reports each of these keys that the section lacks.
func (at *place) require(keys ...string) {
	for _, key := range keys {
		if !at.has(key) {
			at.child(key).fail("is missing")
		}
	}
}

// plain refuses an alias, an anchor and a tag, so that a file cannot expand in memory. An unquoted
// secret that begins with *, & or ! is refused too.
func (at *place) plain() bool {
	switch {
	case at.node.Kind == yaml.AliasNode, at.node.Anchor != "":
		at.fail("anchors (&) and aliases (*) are not read: quote a value that begins so, and put what targets share under defaults")
	case at.node.Style&yaml.TaggedStyle != 0:
		at.fail("tags (!) are not read: quote a value that begins with !")
	default:
		return true
	}
	return false
}

// decode stores the value in dst by the type of dst, or reports why it cannot.
func (at *place) decode(dst reflect.Value) {
	if dst.Type() == reflect.TypeFor[yaml.Node]() || !at.plain() {
		return // a section that is decoded later, or refused
	}
	switch to := dst.Addr().Interface().(type) {
	case interface{ decode(at *place) }:
		to.decode(at)
		return
	case *time.Duration:
		at.duration(to)
		return
	case *[]byte:
		at.picture(to)
		return
	}
	switch dst.Kind() {
	case reflect.Bool:
		at.boolean(dst)
	case reflect.Int:
		if n, ok := at.number("a whole number"); ok {
			dst.SetInt(int64(min(n, 1e15)))
		}
	case reflect.Float64:
		if n, ok := at.number("a number"); ok {
			dst.SetFloat(n)
		}
	case reflect.Slice:
		at.list(dst)
	case reflect.Struct:
		at.section(dst)
	case reflect.Pointer:
		dst.Set(reflect.New(dst.Type().Elem()))
		at.section(dst.Elem())
	default:
		if at.text() {
			dst.SetString(at.value)
		}
	}
}

// section decodes a mapping with known keys into a struct. A null value is a section without keys.
func (at *place) section(dst reflect.Value) {
	value := dst.Addr().Interface()
	if p, is := value.(presetter); is {
		p.preset()
	}
	refuse := func(string) string { return "" }
	if r, is := value.(refuser); is {
		refuse = r.refuse
	}
	known := at.r.keysOf(dst.Type())
	at.keys = map[string]*place{}
	at.mapping(known[0].name+": …", func(key string, item *place) {
		i := slices.IndexFunc(known, func(k yamlKey) bool { return k.name == key })
		switch why := refuse(key); {
		case why != "":
			item.fail("%s", why)
		case i < 0:
			item.fail("%s", unknownKey(key, known, refuse))
		default:
			at.keys[key] = item
			item.decode(dst.FieldByIndex(known[i].index))
		}
	})
	if v, is := value.(validator); is && at.read {
		v.validate(at)
	}
}

// yamlKey is a key of a section and the index of its field in the struct.
type yamlKey struct {
	name  string
	index []int
}

// keysOf returns the keys that the yaml tags of a struct name.
func (r *reader) keysOf(t reflect.Type) []yamlKey {
	if known := r.keys[t]; known != nil {
		return known
	}
	if r.keys == nil {
		r.keys = map[reflect.Type][]yamlKey{}
	}
	for i := range t.NumField() {
		name, options, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
		switch {
		case options == "inline":
			for _, inner := range r.keysOf(t.Field(i).Type) {
				r.keys[t] = append(r.keys[t], yamlKey{inner.name, append([]int{i}, inner.index...)})
			}
		case name != "" && name != "-":
			r.keys[t] = append(r.keys[t], yamlKey{name, []int{i}})
		}
	}
	return r.keys[t]
}

func unknownKey(key string, keys []yamlKey, refuse func(string) string) string {
	var known []string
	for _, k := range keys {
		if refuse(k.name) == "" {
			known = append(known, k.name)
		}
	}
	slices.Sort(known)
	switch meant := Nearest(key, known); {
	case key == "<<":
		return "merge keys are not read: put what targets share under defaults"
	case strings.Contains(key, "${"):
		return "unknown key: references are replaced in values, not in keys"
	case meant != "":
		return fmt.Sprintf("unknown key: did you mean %s?", meant)
	}
	return "unknown key: known here are " + strings.Join(slices.Compact(known), ", ")
}

// mapping calls visit for every key of a mapping, in the order of the file. The example is a sample
// line of such a mapping.
func (at *place) mapping(example string, visit func(key string, item *place)) {
	switch {
	case at.node == nil || !at.plain():
		return
	case isNull(at.node):
	case at.node.Kind == yaml.SequenceNode && at.key != "":
		at.fail("must be a mapping, not a list: remove the dashes, and write `%s:` on one line and `%s` indented on the next", at.key, example)
		return
	case at.node.Kind != yaml.MappingNode:
		at.fail("must be a mapping: lines of `key: value`, indented")
		return
	}
	at.read = true
	lines := make(map[string]int, len(at.node.Content)/2)
	for i := 0; i+1 < len(at.node.Content); i += 2 {
		key := at.node.Content[i]
		item := at.child(key.Value)
		item.node, item.line, item.column = key, key.Line, key.Column
		if key.Kind != yaml.ScalarNode && key.Kind != yaml.AliasNode {
			item.path = at.path
			item.fail("a key must be a single word")
		} else if !item.plain() {
			continue
		} else if line := lines[key.Value]; line > 0 {
			item.fail("is written twice; the first time is in line %d: remove one", line)
		} else {
			lines[key.Value] = key.Line
			item.node = at.node.Content[i+1]
			visit(key.Value, item)
		}
	}
}

// list decodes a list into a slice, which it replaces. Problems refer to an item by its name, if it
// is a section with a name.
func (at *place) list(dst reflect.Value) {
	if !isNull(at.node) && at.node.Kind != yaml.SequenceNode {
		at.fail("must be a list: [a, b], or lines that begin with a dash")
		return
	}
	dst.SetZero()
	for i, node := range at.node.Content {
		item := &place{r: at.r, parent: at, node: node, line: node.Line, column: node.Column, path: fmt.Sprintf("%s[%d]", at.path, i)}
		for k := 0; node.Kind == yaml.MappingNode && k+1 < len(node.Content); k += 2 {
			if name := node.Content[k+1]; node.Content[k].Value == "name" && name.Kind == yaml.ScalarNode && name.Value != "" && !strings.Contains(name.Value, "${") {
				item.path = at.path + "." + pathPart(name.Value)
				break
			}
		}
		at.items = append(at.items, item)
		dst.Set(reflect.Append(dst, reflect.Zero(dst.Type().Elem())))
		item.decode(dst.Index(i))
	}
}

// scalar reads a single value and replaces its references. The text says which values are wanted.
func (at *place) scalar(want string) bool {
	if at.node.Kind != yaml.ScalarNode {
		at.fail("must be %s", want)
		return false
	}
	at.value, at.null = at.node.Value, isNull(at.node)
	if !at.r.request {
		var problem string
		if at.value, at.names, problem = at.r.refs.expand(at.node.Value); problem != "" {
			at.fail("%s", problem)
			return false
		}
	} else if at.null {
		at.fail("is null: give %s, or leave it out", want)
		return false
	}
	return true
}

const quotedStyle = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle

// bare reads a number or a boolean. It refuses an empty value and a quoted value, which is a text in
// YAML. A reference may be in quotes, because YAML requires quotes inside { } and [ ].
func (at *place) bare(want string) bool {
	switch {
	case !at.scalar(want):
		return false
	case at.null:
		at.fail("has no value: give %s, or remove the line", want)
	case len(at.names) == 0 && at.node.Style&quotedStyle != 0:
		at.fail("must be %s, not text in quotes", want)
	default:
		return true
	}
	return false
}

func (at *place) boolean(dst reflect.Value) {
	if !at.bare("true or false") {
		return
	}
	switch at.value {
	case "true", "True", "TRUE":
		dst.SetBool(true)
	case "false", "False", "FALSE":
		dst.SetBool(false)
	default:
		at.fail("must be true or false%s", at.not())
	}
}

// number reads a decimal number that has the same meaning in YAML, in Go and for people. The
// function between adds the range to its messages.
func (at *place) number(want string) (n float64, ok bool) {
	if !at.bare(want) {
		return 0, false
	}
	whole := want == "a whole number"
	if whole && isDigits(at.value) && len(at.value) > 1 && at.value[0] == '0' { // 010 means eight in YAML, but ten for people
		at.fail("must be %s without a zero in front, which YAML takes for an octal number", want)
		return 0, false
	}
	n, err := strconv.ParseFloat(at.value, 64)
	if err != nil || !decimal.MatchString(at.value) || whole && !isDigits(at.value) {
		at.fail("must be %s%s", want, at.not())
		return 0, false
	}
	return n, true
}

// duration reads a duration. A number without a unit is refused, because 80 may mean seconds or
// milliseconds.
func (at *place) duration(to *time.Duration) {
	switch {
	case !at.scalar("a duration"):
		return
	case at.null:
		at.fail("has no value: give a duration, or remove the line")
		return
	case decimal.MatchString(at.value):
		n := "80"
		if len(at.names) == 0 {
			n = at.value
		}
		at.fail("needs a unit (ms, s, m or h): write %ss or %[1]sh, for example", n)
		return
	}
	d, err := time.ParseDuration(at.value)
	if err != nil || strings.ContainsAny(at.value[:1], "+-") {
		at.fail("must be a duration, such as 90s, 1m30s or 168h%s", at.not())
		return
	}
	*to = d
}
