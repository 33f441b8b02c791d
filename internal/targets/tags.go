package targets

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"poold/internal/captcha"
)

// A field is one key of a section, described by the tags of a Go field. The parser, the defaults
// and the JSON Schema are derived from these tags. Rules between several keys are Go code in the
// files of the sections. The tags are:
//
//	key      the key in the file; a Go field without this tag has no key
//	inline   the fields of this struct are keys of the same section
//	must     the key is required; with the tag `of`, only for its types
//	default  the value if the key is absent, in the form of the file
//	range    minimum and maximum value
//	words    all valid texts
//	form     a regular expression for the whole text; the tag `want` describes such texts in messages
//	as       the name of a kind of text in the map texts (kinds.go)
//	set      the list must have at least one item and no equal items
//	max      the maximum number of items of a list
//	names    a regular expression for the names of a mapping; a name is stored in the field Name
//	of       the types of CAPTCHA to which the key belongs; without this tag all types
//	view     a name that distinguishes sections with the same Go type
//	not      the views whose section lacks this key
//	doc      one line of explanation, which editors show
type field struct {
	key, doc string
	kind     kind
	index    []int          // index of the Go field for package reflect
	preset   reflect.Value  // the default; the zero reflect.Value = no default
	must     bool           // see the tag `must`
	of       []captcha.Type // see the tag `of`; nil = all types
}

// sectionOf returns the section that the tags of a struct describe. It panics if a tag is invalid,
// because tags are part of the program.
func sectionOf(t reflect.Type, view string) section {
	s := section{view: view}
	for i := range t.NumField() {
		goField := t.Field(i)
		tag := goField.Tag
		key, named := tag.Lookup("key")
		switch {
		case tag.Get("inline") != "":
			for _, f := range sectionOf(goField.Type, view).fields {
				f.index = slices.Concat(goField.Index, f.index)
				s.fields = append(s.fields, f)
			}
			continue
		case !named || view != "" && slices.Contains(strings.Fields(tag.Get("not")), view):
			continue
		}
		f := field{key: key, doc: tag.Get("doc"), index: goField.Index, must: tag.Get("must") != "", kind: kindOf(goField.Type, tag, view)}
		for _, name := range strings.Fields(tag.Get("of")) {
			f.of = append(f.of, captcha.Type(name))
		}
		if text, given := tag.Lookup("default"); given {
			r := &reader{}
			f.preset = reflect.New(goField.Type).Elem()
			if !f.kind.read(value{r: r, key: key, node: bareNode(text)}, f.preset).ok {
				panic(fmt.Sprintf("%s.%s: %v", t, goField.Name, r.problems))
			}
		}
		s.fields = append(s.fields, f)
	}
	return s
}

// kindOf returns the kind for a Go field with this type and these tags.
func kindOf(t reflect.Type, tag reflect.StructTag, view string) kind {
	lo, hi, _ := strings.Cut(tag.Get("range"), " ")
	switch t {
	case reflect.TypeFor[time.Duration]():
		return duration{orPanic(time.ParseDuration(lo)), orPanic(time.ParseDuration(hi))}
	case reflect.TypeFor[Rate]():
		return rate
	case reflect.TypeFor[Prices]():
		return numberOr{sectionOf(t, "")}
	case reflect.TypeFor[Price]():
		return rangeOf(lo, hi, false)
	case reflect.TypeFor[[]byte]():
		return textOf(tag, view)
	}
	switch t.Kind() {
	case reflect.Bool:
		return boolean{}
	case reflect.Int:
		return rangeOf(lo, hi, true)
	case reflect.Float64:
		return rangeOf(lo, hi, false)
	case reflect.Pointer:
		return kindOf(t.Elem(), tag, view)
	case reflect.Slice:
		item := kindOf(t.Elem(), tag, view)
		if names := tag.Get("names"); names != "" {
			return mapping{item: item, form: regexp.MustCompile("^" + names + "$"), rule: tag.Get("want")}
		}
		most, _ := strconv.Atoi(tag.Get("max"))
		return list{item: item, set: tag.Get("set") != "", maxItems: most}
	case reflect.Struct:
		if tag.Get("as") == "" {
			return sectionOf(t, tag.Get("view"))
		}
	}
	return textOf(tag, view)
}

// textOf returns the kind for a Go field whose values are texts. The same value of the tag `as` may
// stand for different kinds in different views.
func textOf(tag reflect.StructTag, view string) textual {
	if form := tag.Get("form"); form != "" {
		return patternText("^"+form+"$", tag.Get("want"))
	}
	if words := tag.Get("words"); words != "" {
		return oneOf(strings.Fields(words)...)
	}
	as := tag.Get("as")
	if special, has := texts[view+" "+as]; has {
		return special
	}
	text, known := texts[as]
	if !known {
		panic("no text is called " + as)
	}
	return text
}

func rangeOf(lo, hi string, whole bool) number {
	return number{orPanic(strconv.ParseFloat(lo, 64)), orPanic(strconv.ParseFloat(hi, 64)), whole}
}

// orPanic returns n, the parsed value of a tag. It panics if err is not nil.
func orPanic[T any](n T, err error) T {
	if err != nil {
		panic(err)
	}
	return n
}

// preset sets the fields of a struct, and of the sections inside it, to their defaults.
func (s section) preset(dst reflect.Value) {
	for _, f := range s.fields {
		to := dst.FieldByIndex(f.index)
		if inner, is := f.kind.(section); is && to.Kind() == reflect.Struct {
			inner.preset(to)
		} else if f.preset.IsValid() {
			to.Set(f.preset)
		}
	}
}

// inherit completes the section dst: for each key without a valid value in the entry e, it copies
// the field of the section `from`.
func (s section) inherit(e entry, dst, from reflect.Value) {
	for _, f := range s.fields {
		given, to, inherited := e.keys[f.key], dst.FieldByIndex(f.index), from.FieldByIndex(f.index)
		if inner, is := f.kind.(section); is && given.read {
			inner.inherit(given, to, inherited)
		} else if !given.ok && given.items == nil { // an invalid list keeps its items, because rules still check the items
			to.Set(inherited)
		}
	}
}

// field returns the field for a key, or nil for an unknown key.
func (s section) field(key string) *field {
	if i := slices.IndexFunc(s.fields, func(f field) bool { return f.key == key }); i >= 0 {
		return &s.fields[i]
	}
	return nil
}

// belongs reports whether the field belongs to a type of CAPTCHA.
func (f field) belongs(t captcha.Type) bool { return f.of == nil || slices.Contains(f.of, t) }
