package targets

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"poold/internal/targets/syntax"
)

// A section is a mapping with known keys, which is read into a struct. A null value counts as a
// section without keys.
type section struct {
	view   string
	fields []field
}

func (s section) read(v value, dst reflect.Value) entry {
	if dst.Kind() == reflect.Pointer {
		dst.Set(reflect.New(dst.Type().Elem()))
		dst = dst.Elem()
	}
	s.preset(dst)
	before := len(v.r.problems)
	e := entry{value: v, keys: make(map[string]entry)}
	e.read = v.eachKey(s.fields[0].key+": …", func(key string, item value) {
		if f := s.field(key); f != nil {
			e.keys[key] = f.kind.read(item, dst.FieldByIndex(f.index))
		} else {
			item.fail("%s", s.unknownKeyText(key))
		}
	})
	if !e.read {
		return e
	}
	target, is := dst.Addr().Interface().(*Target)
	// If the type cannot be pooled, the problem about the type also explains why the sitekey and
	// the pageurl are missing.
	if !is || unpoolableType(string(target.Identity.Type)) == "" {
		for _, f := range s.fields {
			if f.must && (f.of == nil || s.view == viewTarget) {
				e.requireKeys(f.key)
			}
		}
	}
	e.ok = len(v.r.problems) == before
	return e
}

// These are the views that the code mentions.
const (
	viewDefaults = "defaults"
	viewTarget   = "target"
	viewRequest  = "request"
)

// explanations has a function for each view. The function explains why the section cannot have an
// unknown key, or returns "".
var explanations = map[string]func(key string) string{
	"total": noHourlyTotal, "types": unpoolableType, viewDefaults: unknownDefault, viewTarget: unpoolableField, viewRequest: otherSpelling,
}

// unknownKeyText returns the text of the problem about an unknown key.
func (s section) unknownKeyText(key string) string {
	if explain := explanations[s.view]; explain != nil {
		if reason := explain(key); reason != "" {
			return reason
		}
	}
	var known []string
	for _, f := range s.fields {
		known = append(known, f.key)
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
	return "unknown key: known here are " + strings.Join(known, ", ")
}

func (s section) schema() schema {
	properties, must := schema{}, []string(nil)
	for _, f := range s.fields {
		properties[f.key] = f.schema()
		if f.must {
			must = append(must, f.key)
		}
	}
	all := schema{"type": []string{"object", "null"}, "properties": properties, "additionalProperties": false}
	if must != nil {
		all["type"], all["required"] = "object", must
	}
	return all
}

// A mapping has names as keys, and has at least one key. It is read into a slice of structs with a
// field Name.
type mapping struct {
	item kind
	form *regexp.Regexp // pattern of the names
	rule string         // describes the pattern in messages
}

func (k mapping) read(v value, dst reflect.Value) entry {
	before := len(v.r.problems)
	e := entry{value: v}
	dst.Grow(len(v.node.Content) / 2)
	e.read = v.eachKey("staging-login: …", func(name string, item value) {
		if !k.form.MatchString(name) {
			item.fail("%s", k.rule)
		}
		e.items = append(e.items, k.item.read(item, grow(dst)))
		dst.Index(dst.Len() - 1).FieldByName("Name").SetString(name)
	})
	if e.read && len(v.node.Content) == 0 {
		// A daemon without targets does nothing, so such a file was probably truncated.
		v.fail("has no target: add at least one, with paused: true to buy nothing")
	}
	e.ok = len(v.r.problems) == before
	return e
}

// grow appends a zero element to a slice and returns the element.
func grow(slice reflect.Value) reflect.Value {
	slice.Set(reflect.Append(slice, reflect.Zero(slice.Type().Elem())))
	return slice.Index(slice.Len() - 1)
}

func (k mapping) schema() schema {
	return schema{"type": "object", "minProperties": 1,
		"propertyNames": schema{"pattern": k.form.String()}, "additionalProperties": k.item.schema()}
}

// A list has items of one kind. If the items are sections with a key `name`, problems refer to an
// item by its name.
type list struct {
	item     kind
	set      bool // the list must have at least one item and no equal items
	maxItems int  // maximum number of items; 0 = no limit
}

func (k list) read(v value, dst reflect.Value) entry {
	before := len(v.r.problems)
	e := entry{value: v}
	switch {
	case !v.noTags():
		return e
	case !syntax.IsNull(v.node) && v.node.Kind != yaml.SequenceNode:
		return v.refuse("must be a list: [a, b], or lines that begin with a dash")
	}
	sections, _ := k.item.(section)
	for i, node := range v.node.Content {
		if k.maxItems > 0 && i == k.maxItems {
			v.fail("must be at most %d windows, not %d", k.maxItems, len(v.node.Content))
			break
		}
		item := value{r: v.r, node: node, path: fmt.Sprintf("%s[%d]", v.path, i), line: node.Line}
		if len(sections.fields) > 0 && sections.fields[0].key == "name" {
			item = item.withName(v.path)
		}
		read := k.item.read(item, grow(dst))
		for j := range dst.Len() - 1 {
			if k.set && read.ok && e.items[j].ok && dst.Index(j).Equal(dst.Index(i)) {
				read.ok = item.fail("is listed twice")
			}
		}
		e.items = append(e.items, read)
	}
	if k.set && len(e.items) == 0 {
		v.fail("is empty: list at least one, or remove the line")
	}
	e.ok = len(v.r.problems) == before
	return e
}

func (k list) schema() schema {
	s := schema{"type": []string{"array", "null"}, "items": k.item.schema()}
	if k.set {
		s["type"], s["minItems"] = "array", 1
	}
	if k.maxItems > 0 {
		s["maxItems"] = k.maxItems
	}
	return s
}

// withName returns an item of a list. If the item has a name, the path contains the name instead of
// the item's number.
func (v value) withName(list string) value {
	if v.node.Kind != yaml.MappingNode {
		return v
	}
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		key, name := v.node.Content[i], v.node.Content[i+1]
		if key.Value == "name" && name.Kind == yaml.ScalarNode && name.Value != "" && !strings.Contains(name.Value, "${") {
			v.path = list + "." + pathPart(name.Value)
			break
		}
	}
	return v
}

// eachKey calls the function `fn` for every key of a mapping, in the order of the file. It reports
// repeated keys, and nodes that are no mappings. The argument `example` is a sample line of such a
// mapping, which the message shows.
func (v value) eachKey(example string, fn func(key string, item value)) bool {
	if !v.noTags() {
		return false
	}
	if syntax.IsNull(v.node) {
		return true
	}
	if v.node.Kind == yaml.SequenceNode && v.key != "" {
		return v.fail("must be a mapping, not a list: remove the dashes, and write `%s:` on one line and `%s` indented on the next", v.key, example)
	}
	if v.node.Kind != yaml.MappingNode {
		return v.fail("must be a mapping: lines of `key: value`, indented")
	}
	first := make(map[string]int)
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		key := v.node.Content[i]
		at := value{r: v.r, node: key, path: v.path, line: key.Line}
		if key.Kind != yaml.ScalarNode && key.Kind != yaml.AliasNode {
			at.fail("a key must be a single word")
			continue
		}
		if !at.noTags() {
			continue
		}
		item := at.child(key.Value)
		item.node = v.node.Content[i+1]
		if line, twice := first[key.Value]; twice {
			item.fail("is written twice; the first time is in line %d: remove one", line) // this happens only in files, because strictjson refuses repeated fields of a request
			continue
		}
		first[key.Value] = key.Line
		fn(key.Value, item)
	}
	return true
}
