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

// A field is one key of a section, as the tags of a Go field describe it. Reader,
// defaults and schema come from these tags. Rules over several keys are plain Go beside
// the types.
//
//	key      the key in the file; a field without it is not in the file
//	inline   the fields of this struct are keys of the same section
//	must     the section is invalid without the key; with of, if one of these types is asked for
//	default  the value if the key is absent, as the file writes it
//	range    least and greatest value
//	words    all texts that are allowed
//	form     the regular expression of the whole text, which want describes
//	as       the name of a text in texts (kinds.go)
//	set      a list of at least one item, none of them twice
//	max      the most items of a list
//	names    a mapping of names of this form; the names go into the field Name
//	of       the types of CAPTCHA that the key belongs to; without it all
//	view     names a section whose type has others too; those without a field say not:"VIEW"
//	doc      one line for the people who write the file; editors show it
type field struct {
	key, doc string
	kind     kind
	index    []int          // of the Go field, for reflect
	preset   reflect.Value  // the default; invalid if there is none
	must     bool           // see the tag
	of       []captcha.Type // nil = all
}

// sectionOf describes a struct as a section of the file. Its tags are part of the
// program: it panics if one is wrong.
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

// kindOf returns the kind of a Go field of this type with these tags.
func kindOf(t reflect.Type, tag reflect.StructTag, view string) kind {
	lo, hi, _ := strings.Cut(tag.Get("range"), " ")
	switch t {
	case reflect.TypeFor[time.Duration]():
		return duration{must(time.ParseDuration(lo)), must(time.ParseDuration(hi))}
	case reflect.TypeFor[Rate]():
		return rate
	case reflect.TypeFor[Size]():
		return size(must(parseSize(lo)), must(parseSize(hi)))
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
		return list{item: item, set: tag.Get("set") != "", most: most}
	case reflect.Struct:
		if tag.Get("as") == "" {
			return sectionOf(t, tag.Get("view"))
		}
	}
	return textOf(tag, view)
}

// textOf returns the kind of a text. A view may have another text of the same name.
func textOf(tag reflect.StructTag, view string) textual {
	if form := tag.Get("form"); form != "" {
		return formed("^"+form+"$", tag.Get("want"))
	}
	if words := tag.Get("words"); words != "" {
		return word(strings.Fields(words)...)
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
	return number{must(strconv.ParseFloat(lo, 64)), must(strconv.ParseFloat(hi, 64)), whole}
}

// must returns a number of a tag.
func must[T any](n T, err error) T {
	if err != nil {
		panic(err)
	}
	return n
}

// preset gives a struct the defaults of its fields, also in sections inside it.
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

// inherit copies the fields of from for which e has no valid value.
func (s section) inherit(e entry, dst, from reflect.Value) {
	for _, f := range s.fields {
		given, to, inherited := e.keys[f.key], dst.FieldByIndex(f.index), from.FieldByIndex(f.index)
		if inner, is := f.kind.(section); is && given.read {
			inner.inherit(given, to, inherited)
		} else if !given.ok && given.items == nil { // rules look at the items of an invalid list
			to.Set(inherited)
		}
	}
}

// field returns the field of a key, or nil.
func (s section) field(key string) *field {
	if i := slices.IndexFunc(s.fields, func(f field) bool { return f.key == key }); i >= 0 {
		return &s.fields[i]
	}
	return nil
}

// belongs reports whether the field belongs to a type of CAPTCHA.
func (f field) belongs(t captcha.Type) bool { return f.of == nil || slices.Contains(f.of, t) }
