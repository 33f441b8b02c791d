package targets

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// keys says which keys a mapping may have and what reads the value of each. A
// reading function reports whether the value may be used.
type keys map[string]func(v value) bool

// mark tells where a key stood.
type mark struct {
	line int
	ok   bool // its value may be used
}

// given holds a mark for each key that a mapping had.
type given map[string]mark

// has reports whether the key was written at all, with a good value or a bad one.
func (g given) has(key string) bool { return g[key].line > 0 }

// bad reports whether a value among the named keys was refused; rules that
// compare several values stay silent then, since one report is enough.
func (g given) bad(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return g.has(name) && !g[name].ok })
}

// missing reports the keys that must be there and are not.
func (v value) missing(g given, names ...string) bool {
	absent := false
	for _, name := range names {
		if !g.has(name) {
			absent = true
			v.child(name).fail("is missing")
		}
	}
	return absent
}

// child is a value of the same line one step down the path; it has no node.
func (v value) child(name string) value {
	path := pathPart(name)
	if v.path != "" {
		path = v.path + "." + path
	}
	return value{r: v.r, path: path, line: v.line}
}

// at is the place of a key for a complaint about it: its own line where it was
// written, else that of the mapping.
func (v value) at(g given, name string) value {
	c := v.child(name)
	if g.has(name) {
		c.line = g[name].line
	}
	return c
}

// section reads a mapping with fixed keys. explain may know more about an
// unknown key than that it is unknown ("" = it does not); it may be nil. An empty
// section is one without keys.
func (v value) section(known keys, explain func(key string) string) (given, bool) {
	g := make(given)
	ok := v.each(func(name string, item value) {
		read := known[name]
		if read == nil {
			item.fail("%s", unknown(name, known, explain))
			return
		}
		g[name] = mark{line: item.line, ok: read(item)}
	})
	return g, ok
}

// unknown words the problem of a key that is not among those known.
func unknown(name string, known keys, explain func(string) string) string {
	if explain != nil {
		if reason := explain(name); reason != "" {
			return reason
		}
	}
	names := slices.Sorted(maps.Keys(known))
	switch meant := nearest(name, names); {
	case name == "<<":
		return "merge keys are not read: put what targets share under defaults"
	case strings.Contains(name, "${"):
		return "unknown key: references are replaced in values, not in keys"
	case meant != "":
		return fmt.Sprintf("unknown key: did you mean %s?", meant)
	}
	return "unknown key: known here are " + strings.Join(names, ", ")
}

// each calls fn for every key of a mapping, in the order of the file, and
// refuses what is no mapping and what is written twice.
func (v value) each(fn func(key string, item value)) bool {
	if !v.plain() {
		return false
	}
	if isNull(v.node) {
		return true
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
		if !at.plain() {
			continue
		}
		item := at.child(key.Value)
		item.node = v.node.Content[i+1]
		if line := first[key.Value]; line > 0 {
			item.fail("is written twice; the first time is in line %d: remove one", line)
			continue
		}
		first[key.Value] = key.Line
		fn(key.Value, item)
	}
	return true
}

// list calls fn for every item of a list. An empty list has none.
func (v value) list(fn func(item value)) bool {
	if !v.plain() {
		return false
	}
	if isNull(v.node) {
		return true
	}
	if v.node.Kind != yaml.SequenceNode {
		return v.fail("must be a list: [a, b], or lines that begin with a dash")
	}
	for i, node := range v.node.Content {
		fn(value{r: v.r, node: node, path: fmt.Sprintf("%s[%d]", v.path, i), line: node.Line})
	}
	return true
}

// words reads a list of texts that must not be empty; check says what is wrong
// with one of them, "" for nothing.
func (v value) words(dst *[]string, check func(word string) string) bool {
	all := true
	ok := v.list(func(item value) {
		var word string
		e, ok := item.expansion(&word)
		if ok {
			if rule := check(word); rule != "" {
				ok = item.fail("%s%s", rule, e.not())
			} else if slices.Contains(*dst, word) {
				ok = item.fail("is listed twice")
			}
		}
		all = all && ok
		*dst = append(*dst, word)
	})
	if ok && len(*dst) == 0 {
		return v.fail("lists nothing: name at least one, or remove the line")
	}
	return ok && all
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
