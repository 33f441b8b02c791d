package targets

import (
	"fmt"
	"reflect"
	"regexp"
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
}

// setting is one value of the file: its position for messages, and the values inside it.
type setting struct {
	r      *reader
	parent *setting
	node   *yaml.Node // nil if the value is not in the file
	path   string     // path of keys, such as targets.login.depth; "" for the whole file
	key    string     // the last key of the path; "" for the whole file and for list items

	// The tag of the field in the struct: range limits a number or a duration, as in 1 to 10, oneof lists the allowed
	// texts, form has a pattern, a space, and what messages call a text that matches, and nonempty refuses an empty text
	// or list.
	tag reflect.StructTag

	line, column int                 // of the key, or of the item of a list
	keys         map[string]*setting // the values of a section; nil if it is neither a mapping nor null
	items        []*setting          // the values of a list
	defaults     *setting            // the section from which missing keys are inherited; nil = none

	value string   // a scalar, with replaced references
	names []string // the references of the scalar: names of variables, or file: and a path
	bad   bool     // the value or a value inside it is invalid
}

// fail reports a problem that makes the file invalid.
func (at *setting) fail(format string, args ...any) {
	for p := at; p != nil; p = p.parent {
		p.bad = true
	}
	at.r.problems = append(at.r.problems, at.remark(format, args))
}

// warn reports an unusual but allowed setting.
func (at *setting) warn(format string, args ...any) {
	at.r.warnings = append(at.r.warnings, at.remark(format, args))
}

func (at *setting) remark(format string, args []any) Problem {
	text := strings.TrimPrefix(at.path+": ", ": ") + fmt.Sprintf(format, args...)
	return Problem{File: at.r.file, Line: at.line, Text: text, column: at.column}
}

// at returns the setting of the first of these keys that the file contains. If it contains none of them, the setting of
// the last key has the line of the section.
func (at *setting) at(keys ...string) *setting {
	for _, key := range keys {
		if at.keys[key] != nil {
			return at.keys[key]
		}
	}
	return at.child(keys[len(keys)-1])
}

func (at *setting) child(key string) *setting {
	part := pathPart(key)
	return &setting{r: at.r, parent: at, path: strings.TrimPrefix(at.path+"."+part, "."), key: part, line: at.line,
		column: at.column}
}

// has reports whether the section contains the key, with a valid or an invalid value.
func (at *setting) has(key string) bool { return at.keys[key] != nil }

// given reports whether the key is in the section, or in the defaults that the section inherits.
func (at *setting) given(key string) bool {
	return at.has(key) || at.defaults != nil && at.defaults.has(key)
}

// ok reports whether none of these keys has an invalid value, here or in the defaults. If one has, a rule of several
// keys is not checked, because the invalid value is already reported.
func (at *setting) ok(keys ...string) bool {
	return !slices.ContainsFunc(keys, func(key string) bool {
		return at.has(key) && at.keys[key].bad || !at.has(key) && at.defaults != nil && !at.defaults.ok(key)
	})
}

// require reports each of these keys that the section lacks.
func (at *setting) require(keys ...string) {
	for _, key := range keys {
		if !at.has(key) {
			at.child(key).fail("is missing")
		}
	}
}

// plain refuses an alias, an anchor and a tag, so that a file cannot expand in memory. An unquoted
// secret that begins with *, & or ! is refused too.
func (at *setting) plain() bool {
	const alias = "anchors (&) and aliases (*) are not read: quote a value that begins so, " +
		"and put what targets share under defaults"
	return at.obey(
		check{at.node.Kind == yaml.AliasNode || at.node.Anchor != "", alias},
		check{at.node.Style&yaml.TaggedStyle != 0, "tags (!) are not read: quote a value that begins with !"},
	)
}

// decode stores the value in dst by the type of dst, or reports why it cannot.
func (at *setting) decode(dst reflect.Value) {
	if !at.plain() || dst.Type() == reflect.TypeFor[yaml.Node]() {
		return // refused, or a section that is decoded later
	}
	if own, is := dst.Addr().Interface().(interface{ decode(at *setting) }); is {
		own.decode(at)
		return
	}
	switch dst.Kind() {
	case reflect.Bool:
		if at.bare("true or false", false) {
			at.obey(check{at.value != "true" && at.value != "false", "must be true or false" + at.not()})
			dst.SetBool(at.value == "true")
		}
	case reflect.Int:
		if n, ok := at.number(wholeNumber); ok {
			dst.SetInt(int64(n))
		}
	case reflect.Int64:
		at.duration(dst)
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
			at.obey(check{at.tag.Get("nonempty") != "" && at.value == "", "must not be empty"})
			at.oneOf(strings.Fields(at.tag.Get("oneof")))
			at.form()
		}
	}
}

// section decodes a mapping with known keys into a struct. A null value is a section without keys. The struct may have
// these methods: preset sets the defaults, refuse says why a key is not allowed in this section, and validate checks
// the rules of the section.
func (at *setting) section(dst reflect.Value) {
	value := dst.Addr().Interface()
	if p, is := value.(interface{ preset() }); is {
		p.preset()
	}
	var refuse func(string) string
	if r, is := value.(interface{ refuse(key string) string }); is {
		refuse = r.refuse
	}
	keys := keysOf(dst.Type())
	at.entries(keys.names, refuse, func(i int, item *setting) {
		item.tag = keys.fields[i].Tag
		item.decode(dst.FieldByIndex(keys.fields[i].Index))
	})
	if v, is := value.(interface{ validate(at *setting) }); is && at.keys != nil {
		v.validate(at)
	}
}

// yamlKeys has the keys of a section and their fields in the struct, including embedded structs.
type yamlKeys struct {
	names  []string
	fields []reflect.StructField
}

// keysOf returns the keys that the yaml tags of a struct name.
func keysOf(t reflect.Type) (keys yamlKeys) {
	for _, field := range reflect.VisibleFields(t) {
		if name := field.Tag.Get("yaml"); name != "" && name != ",inline" {
			keys.names, keys.fields = append(keys.names, name), append(keys.fields, field)
		}
	}
	return keys
}

// entries calls visit with the index of every known key of a mapping, and reports the other keys. The
// function refuse says why a key is not allowed; nil allows all.
func (at *setting) entries(known []string, refuse func(key string) string, visit func(i int, item *setting)) {
	if refuse == nil {
		refuse = func(string) string { return "" }
	}
	at.mapping(known[0]+": …", func(key string, item *setting) {
		i, why := slices.Index(known, key), refuse(key)
		if why == "" && i < 0 {
			why = unknownKey(key, slices.DeleteFunc(slices.Clone(known), func(k string) bool { return refuse(k) != "" }))
		}
		if item.obey(check{why != "", why}) {
			at.keys[key] = item
			visit(i, item)
		}
	})
}

func unknownKey(key string, known []string) string {
	slices.Sort(known)
	if meant := Nearest(key, known); meant != "" {
		return "unknown key: did you mean " + meant + "?"
	}
	return "unknown key: known here are " + strings.Join(slices.Compact(known), ", ")
}

// mapping calls visit for every key of a mapping, in the order of the file. The example is a sample
// line of such a mapping.
func (at *setting) mapping(example string, visit func(key string, item *setting)) {
	const dashes = "must be a mapping, not a list: remove the dashes, " +
		"and write `%s:` on one line and `%s` indented on the next"
	if !isNull(at.node) && !at.obey(
		check{at.key == "budget" && at.node.Value == "0",
			"must be a mapping of limits: to buy nothing, write paused: true in the targets or the defaults"},
		check{at.node.Kind == yaml.SequenceNode && at.key != "", fmt.Sprintf(dashes, at.key, example)},
		check{at.node.Kind != yaml.MappingNode, "must be a mapping: lines of `key: value`, indented"},
	) {
		return
	}
	at.keys = map[string]*setting{}
	lines := make(map[string]int, len(at.node.Content)/2)
	for i := 0; i+1 < len(at.node.Content); i += 2 {
		key := at.node.Content[i]
		item := at.child(key.Value)
		item.node, item.line, item.column = key, key.Line, key.Column
		switch line := lines[key.Value]; {
		case key.Kind != yaml.ScalarNode && key.Kind != yaml.AliasNode:
			item.path = at.path
			item.fail("a key must be a single word")
		case !item.plain():
		case line > 0:
			item.fail("is written twice; the first time is in line %d: remove one", line)
		default:
			lines[key.Value] = key.Line
			item.node = at.node.Content[i+1]
			visit(key.Value, item)
		}
	}
}

// list decodes a list into a slice, which it replaces. Problems refer to an item by its name, if it
// is a section with a name.
func (at *setting) list(dst reflect.Value) {
	if !at.obey(
		check{!isNull(at.node) && at.node.Kind != yaml.SequenceNode,
			"must be a list: [a, b], or lines that begin with a dash"},
		check{at.tag.Get("nonempty") != "" && len(at.node.Content) == 0, "is empty: list at least one, or remove the line"},
	) {
		return
	}
	dst.SetZero()
	for i, node := range at.node.Content {
		item := &setting{r: at.r, parent: at, node: node, line: node.Line, column: node.Column, tag: at.tag}
		item.path = fmt.Sprintf("%s[%d]", at.path, i)
		for k := 0; node.Kind == yaml.MappingNode && k+1 < len(node.Content); k += 2 {
			key, name := node.Content[k].Value, node.Content[k+1]
			names := key == "name" || key == "service" && strings.HasSuffix(item.path, "]") // a provider's default name
			if names && name.Kind == yaml.ScalarNode && name.Value != "" && !strings.Contains(name.Value, "${") {
				item.path = at.path + "." + pathPart(name.Value)
			}
		}
		at.items = append(at.items, item)
		dst.Set(reflect.Append(dst, reflect.Zero(dst.Type().Elem())))
		item.decode(dst.Index(i))
	}
}

// scalar reads a single value and replaces its references. The argument want says in messages which values are allowed.
func (at *setting) scalar(want string) bool {
	if !at.obey(check{at.node.Kind != yaml.ScalarNode, "must be " + want}) {
		return false
	}
	if at.r.request {
		at.value = at.node.Value
		return at.obey(check{isNull(at.node), fmt.Sprintf("is null: give %s, or leave it out", want)})
	}
	var problem string
	at.value, at.names, problem = at.r.refs.expand(at.node.Value)
	return at.obey(check{problem != "", problem})
}

const quotedStyle = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle

// bare reads a number, a boolean or a duration. It refuses an empty value, and for numbers and booleans a
// quoted value, which is a text in YAML. A reference may be in quotes, because YAML requires quotes
// inside { } and [ ].
func (at *setting) bare(want string, mayQuote bool) bool {
	return at.scalar(want) && at.obey(
		check{isNull(at.node), fmt.Sprintf("has no value: give %s, or remove the line", want)},
		check{!mayQuote && len(at.names) == 0 && at.node.Style&quotedStyle != 0,
			fmt.Sprintf("must be %s, not text in quotes", want)},
	)
}

const wholeNumber = "a whole number"

// decimal matches the numbers that have the same meaning in YAML, in Go and for people. For instance, 010
// means eight in YAML, but ten for people.
var decimal = regexp.MustCompile(`^(0|[1-9][0-9]*)(\.[0-9]+)?$`)

// number reads a decimal number in the range of the key.
func (at *setting) number(kind string) (n float64, ok bool) {
	want := at.inRange(kind)
	if !at.bare(want, false) {
		return 0, false
	}
	n, err := strconv.ParseFloat(at.value, 64)
	isPart := kind == wholeNumber && strings.Contains(at.value, ".")
	return n, at.obey(
		check{err != nil || !decimal.MatchString(at.value) || isPart || at.beyond(n), "must be " + want + at.not()},
	)
}

// duration reads a duration. A number without a unit is refused, because 80 may mean seconds or
// milliseconds.
func (at *setting) duration(dst reflect.Value) {
	want := at.inRange("a duration")
	if !at.bare(want, true) {
		return
	}
	n := "80"
	if len(at.names) == 0 {
		n = at.value
	}
	d, err := time.ParseDuration(at.value)
	if at.obey(
		check{decimal.MatchString(at.value),
			fmt.Sprintf("needs a unit (ms, s, m or h): write %ss or %[1]sh, for example", n)},
		check{err != nil || strings.ContainsAny(at.value[:1], "+-"),
			fmt.Sprintf("must be %s, such as 90s, 1m30s or 168h%s", want, at.not())},
		check{at.beyond(float64(d)), fmt.Sprintf("must be %s%s", want, at.not())},
	) {
		dst.SetInt(int64(d))
	}
}

// inRange returns the kind of a value with the range that the key allows, as in "a number from 1 to 10".
func (at *setting) inRange(kind string) string {
	if limits := at.tag.Get("range"); limits != "" {
		return kind + " from " + limits
	}
	return kind
}

// beyond reports whether a number, or a duration in nanoseconds, is outside the range of the key.
func (at *setting) beyond(n float64) bool {
	lo, hi, limited := strings.Cut(at.tag.Get("range"), " to ")
	return limited && (n < limit(lo) || n > limit(hi))
}

func limit(text string) float64 {
	if d, err := time.ParseDuration(text); err == nil {
		return float64(d)
	}
	n, _ := strconv.ParseFloat(text, 64)
	return n
}
