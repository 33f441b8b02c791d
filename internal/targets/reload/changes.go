package reload

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"poold/internal/targets"
)

// maxNamed is the maximum number of names after each word of a text about changes.
const maxNamed = 20

// changesBetween names the targets that a reload added, changed or removed, and the other keys that
// it changed, such as providers.main. It shortens long lists. The result is "" if only comments
// changed.
func changesBetween(old, set *targets.Set) string {
	keys, before, now := differing(*old, *set)
	names := map[string][]string{}
	for _, key := range keys {
		how := "targets changed"
		name, isTarget := strings.CutPrefix(key, "targets.")
		switch {
		case !isTarget:
			how = "other settings changed:"
		case before[key] == nil:
			how = "targets added"
		case now[key] == nil:
			how = "targets removed"
		}
		if len(before[key]) == 1 && len(now[key]) == 1 {
			name += fieldsChanged(before[key][0], now[key][0])
		}
		names[how] = append(names[how], name)
	}
	var parts []string
	for _, how := range []string{"targets added", "targets changed", "targets removed", "other settings changed:"} {
		list := names[how]
		if more := len(list) - maxNamed; more > 0 {
			list = append(list[:maxNamed:maxNamed], fmt.Sprintf("and %d more", more))
		}
		if len(list) > 0 {
			parts = append(parts, how+" "+strings.Join(list, ", "))
		}
	}
	return strings.Join(parts, "; ")
}

// fieldsChanged names the keys of a section that differ, with their values before and after, in brackets; secrets are
// redacted.
func fieldsChanged(old, present any) string {
	keys, before, now := differing(old, present)
	var parts []string
	for _, key := range keys {
		if isPlain(before[key]) && isPlain(now[key]) {
			key = strings.TrimSpace(fmt.Sprintf("%s %v → %v", key, before[key][0], now[key][0]))
		}
		if key != "" {
			parts = append(parts, key)
		}
	}
	if len(parts) == 0 {
		return "" // another provider withholds it
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// isPlain reports whether a key has one value, which a line of text can show.
func isPlain(values []any) bool {
	if len(values) != 1 {
		return false
	}
	kind := reflect.ValueOf(values[0]).Kind()
	return kind <= reflect.Complex128 || kind == reflect.String
}

// differing returns the keys whose values differ between two sections of one type, sorted, and the values of all keys.
func differing(old, present any) (keys []string, before, now map[string][]any) {
	before, now = map[string][]any{}, map[string][]any{}
	keysOf("", reflect.ValueOf(old), before)
	keysOf("", reflect.ValueOf(present), now)
	all := maps.Clone(before)
	maps.Copy(all, now)
	for key := range all {
		if !reflect.DeepEqual(before[key], now[key]) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys, before, now
}

func isKey(f reflect.StructField) bool { return f.Tag.Get("yaml") != "" }

// keysOf collects the keys below a section with their values. In a list whose items have names, each item counts as one
// key, and items with the same name, such as the keys of one caller, count as one together. The service's key in a
// provider counts as a separate key.
func keysOf(path string, v reflect.Value, into map[string][]any) {
	switch t := v.Type(); {
	case t.Kind() == reflect.Struct && slices.ContainsFunc(reflect.VisibleFields(t), isKey):
		for i := range t.NumField() {
			if key, options, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ","); key+options != "" {
				keysOf(strings.Trim(path+"."+key, "."), v.Field(i), into)
			}
		}
	case t.Kind() == reflect.Map && t.Elem().Kind() == reflect.Struct:
		for name, item := range v.Seq2() {
			keysOf(path+"."+name.String(), item, into)
		}
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct && t.Elem().Field(0).Name == "Name":
		for _, item := range v.Seq2() {
			key, value := path+"."+item.Field(0).String(), item.Interface()
			if p, is := value.(targets.Provider); is {
				into["the order of the providers"] = append(into["the order of the providers"], p.Name)
				into[key+".key"] = append(into[key+".key"], p.Key)
				p.Key = ""
				value = p
			}
			into[key] = append(into[key], value)
		}
	default:
		into[path] = append(into[path], v.Interface())
	}
}
