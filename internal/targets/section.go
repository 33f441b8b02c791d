package targets

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// section is a mapping with known keys, as a record. One without a value is a
// section without keys.
type section struct {
	fields  []field
	explain func(key string) string // may know more of an unknown key than that it is unknown, "" = it does not; nil = never does
	excused func(rec record) bool   // reports that nothing is missed, because another fault explains it; nil = never
}

// read returns a record also where something in it is wrong.
func (s section) read(v value) (any, bool) {
	before := len(v.r.problems)
	rec := record{value: v, marks: make(map[string]mark)}
	ok := v.each(s.fields[0].key+": …", func(key string, item value) {
		i := slices.IndexFunc(s.fields, func(f field) bool { return f.key == key })
		if i < 0 {
			item.fail("%s", s.unknown(key))
			return
		}
		rec.marks[key] = newMark(s.fields[i].kind, item)
	})
	if !ok {
		return nil, false
	}
	if s.excused == nil || !s.excused(rec) {
		for _, f := range s.fields {
			if f.must && f.only == nil {
				rec.needs(f.key)
			}
		}
	}
	return rec, len(v.r.problems) == before
}

// unknown words the problem of a key that is not among those known.
func (s section) unknown(key string) string {
	if s.explain != nil {
		if reason := s.explain(key); reason != "" {
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

// mapping is names, of which there must be one at least, and what they stand for,
// as a []mark.
type mapping struct {
	item kind
	form *regexp.Regexp // of the names
	rule string         // and what is wrong with one that is not so
}

func (k mapping) read(v value) (any, bool) {
	before := len(v.r.problems)
	var all []mark
	ok := v.each("staging-login: …", func(name string, item value) {
		if !k.form.MatchString(name) {
			item.fail("%s", k.rule)
		}
		m := newMark(k.item, item)
		m.name = name
		all = append(all, m)
	})
	if ok && len(v.node.Content) == 0 {
		// Nobody runs a daemon for nothing: this is a file that was cut off.
		v.fail("names no target: name at least one, with paused: true to buy nothing")
	}
	return all, len(v.r.problems) == before
}

func (k mapping) schema() schema {
	return schema{"type": "object", "minProperties": 1,
		"propertyNames": schema{"pattern": k.form.String()}, "additionalProperties": k.item.schema()}
}

// list is items of one kind, as a []mark.
type list struct {
	item  kind
	words bool // texts, each once, and one at least
	named bool // sections that are told apart by their key `name`
	most  int  // of which there may be so many; 0 = any number
}

func (k list) read(v value) (any, bool) {
	before := len(v.r.problems)
	if !v.noTags() {
		return nil, false
	}
	if !isNull(v.node) && v.node.Kind != yaml.SequenceNode {
		return nil, v.fail("must be a list: [a, b], or lines that begin with a dash")
	}
	var all []mark
	for i, node := range v.node.Content {
		if k.most > 0 && i == k.most {
			v.fail("must be at most %d windows, not %d", k.most, len(v.node.Content))
			break
		}
		item := value{r: v.r, node: node, path: fmt.Sprintf("%s[%d]", v.path, i), line: node.Line}
		if k.named {
			item = item.named(v.path)
		}
		m := newMark(k.item, item)
		if k.words && m.ok && slices.ContainsFunc(all, func(other mark) bool { return other.got == m.got }) {
			m.ok = item.fail("is listed twice")
		}
		all = append(all, m)
	}
	if k.words && len(all) == 0 {
		v.fail("lists nothing: name at least one, or remove the line")
	}
	return all, len(v.r.problems) == before
}

func (k list) schema() schema {
	s := schema{"type": []string{"array", "null"}, "items": k.item.schema()}
	if k.words {
		s["type"], s["minItems"] = "array", 1
	}
	if k.most > 0 {
		s["maxItems"] = k.most
	}
	return s
}

// named calls an item of a list by its name where it has one, which people find
// sooner than a number.
func (v value) named(list string) value {
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

// each calls fn for every key of a mapping, in the order of the file, and
// refuses what is no mapping and what is written twice. example is a line of such a
// mapping, as an example.
func (v value) each(example string, fn func(key string, item value)) bool {
	if !v.noTags() {
		return false
	}
	if isNull(v.node) {
		return true
	}
	if v.node.Kind == yaml.SequenceNode && v.key != "" {
		return v.fail("must be a mapping, not a list: take the dashes away, so that there is `%s:` in one line, and `%s` indented in the next", v.key, example)
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
		if line, twice := first[key.Value]; twice && v.r.request {
			item.fail("is written twice: remove one")
			continue
		} else if twice {
			item.fail("is written twice; the first time is in line %d: remove one", line)
			continue
		}
		first[key.Value] = key.Line
		fn(key.Value, item)
	}
	return true
}
