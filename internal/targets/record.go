package targets

import (
	"reflect"
	"slices"
	"strings"
)

// record is a section as it was read: where it stands, and what of its keys was
// written.
type record struct {
	value
	marks map[string]mark
}

// mark is a value that was written.
type mark struct {
	value
	name string // in a mapping of names; else ""
	got  any    // in the type that its kind names
	ok   bool   // it may be used
}

func newMark(k kind, v value) mark {
	got, ok := k.read(v)
	return mark{value: v, got: got, ok: ok}
}

// record is the section that the mark is for, an empty one where it is no section.
func (m mark) record() record {
	if rec, ok := m.got.(record); ok {
		return rec
	}
	return record{value: m.value}
}

// has reports whether a key was written at all, with a good value or a bad one.
func (rec record) has(key string) bool {
	_, written := rec.marks[key]
	return written
}

// bad reports whether a value among the named keys was refused; rules that
// compare several values stay silent then, since one report is enough.
func (rec record) bad(keys ...string) bool {
	return slices.ContainsFunc(keys, func(key string) bool { return rec.has(key) && !rec.marks[key].ok })
}

// needs reports those of the keys that were not written.
func (rec record) needs(keys ...string) {
	for _, key := range keys {
		if !rec.has(key) {
			rec.child(key).fail("is missing")
		}
	}
}

// at is the place of a key for a complaint about it: its own where it was written,
// else that of the section. Of several keys the first that was written counts, or
// the last one.
func (rec record) at(keys ...string) value {
	for _, key := range keys {
		if rec.has(key) {
			return rec.marks[key].value
		}
	}
	return rec.child(keys[len(keys)-1])
}

// section is a section inside this one, an empty one where it was not written.
func (rec record) section(key string) record {
	if !rec.has(key) {
		return record{value: rec.child(key)}
	}
	return rec.marks[key].record()
}

// items are those of a list or of a mapping of names.
func (rec record) items(key string) []mark {
	all, _ := rec.marks[key].got.([]mark)
	return all
}

// into copies the good values to dst, the address of a struct, each into the field
// that is named like its key: hit_rate into HitRate. Sections go into structs and
// lists of texts into slices. What the struct has no such field for, be it of
// another type, is left to the rules of the section.
func (rec record) into(dst any) {
	for key, m := range rec.marks {
		if sub, ok := m.got.(record); ok {
			if f := place(dst, key); f.Kind() == reflect.Struct {
				sub.into(f.Addr().Interface())
			}
		} else if m.ok {
			set(place(dst, key), m.got)
		}
	}
}

// preset does the same with what holds where the file says nothing.
func (s section) preset(dst any) {
	for _, f := range s.fields {
		if sub, ok := f.kind.(section); ok {
			if f := place(dst, f.key); f.Kind() == reflect.Struct {
				sub.preset(f.Addr().Interface())
			}
		} else if f.preset != nil {
			set(place(dst, f.key), f.preset)
		}
	}
}

// decode makes a struct of a record of this section.
func decode[T any](s section, rec record) (dst T) {
	s.preset(&dst)
	rec.into(&dst)
	return dst
}

// place is the field of a struct that is named like a key, the zero Value for
// none.
func place(dst any, key string) reflect.Value {
	name := strings.ReplaceAll(key, "_", "")
	return reflect.ValueOf(dst).Elem().FieldByNameFunc(func(field string) bool { return strings.EqualFold(field, name) })
}

// set gives a field a value of its own kind, such as a string to a Refill.
func set(field reflect.Value, got any) {
	v := reflect.ValueOf(got)
	switch items, many := got.([]mark); {
	case !field.IsValid():
	case many && field.Kind() == reflect.Slice && field.Type().Elem().Kind() == reflect.String:
		field.SetZero()
		for _, item := range items {
			field.Set(reflect.Append(field, reflect.ValueOf(item.got).Convert(field.Type().Elem())))
		}
	case v.Kind() == field.Kind() && v.CanConvert(field.Type()):
		field.Set(v.Convert(field.Type()))
	}
}
