package reload

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"poold/internal/targets"
)

// maxNamed is the maximum number of names in a Change.
const maxNamed = 20

// Change is one kind of difference that a reload made, such as added or removed, with the names of the
// targets, or the keys of other sections.
type Change struct {
	How   string // added, changed or removed (targets), or keys
	Names []string
}

// attributes returns the changes as attributes of a log line.
func attributes(changes []Change) (list []any) {
	for _, c := range changes {
		list = append(list, c.How, c.Names)
	}
	return list
}

// changesBetween returns the targets that a reload added, changed or removed, and the other keys that
// it changed, such as providers.main.key. It shortens long lists. The result is empty if only comments
// changed.
func changesBetween(old, set *targets.Set) (changes []Change) {
	names := map[string][]string{}
	compare("", reflect.ValueOf(*old), reflect.ValueOf(*set), func(key, how string) {
		name, isTarget := strings.CutPrefix(key, "targets.")
		if !isTarget {
			how = "keys"
		}
		names[how] = append(names[how], name)
	})
	for _, how := range []string{"added", "changed", "removed", "keys"} {
		list := names[how]
		slices.Sort(list)
		if more := len(list) - maxNamed; more > 0 {
			list = append(list[:maxNamed:maxNamed], fmt.Sprintf("and %d more", more))
		}
		if len(list) > 0 {
			changes = append(changes, Change{how, list})
		}
	}
	return changes
}

// whole are the types whose keys are not compared one by one.
var whole = []reflect.Type{reflect.TypeFor[targets.Target](), reflect.TypeFor[targets.Prices]()}

// compare reports the keys with different values. It reports a section or an item of a list as a whole
// if only one of the two Sets has it.
func compare(path string, was, is reflect.Value, report func(key, how string)) {
	switch kind := was.Type(); {
	case reflect.DeepEqual(was.Interface(), is.Interface()):
	case kind.Kind() == reflect.Pointer && !was.IsNil() && !is.IsNil():
		compare(path, was.Elem(), is.Elem(), report)
	case kind.Kind() == reflect.Struct && !slices.Contains(whole, kind) && kind.Field(0).Tag.Get("yaml") != "":
		for i := range kind.NumField() {
			if key := kind.Field(i).Tag.Get("yaml"); key != "" {
				compare(strings.TrimPrefix(path+"."+key, "."), was.Field(i), is.Field(i), report)
			}
		}
	case kind.Kind() == reflect.Slice && kind.Elem().Kind() == reflect.Struct && kind.Elem().Field(0).Name == "Name":
		before, now := byName(was), byName(is)
		names := maps.Clone(before)
		maps.Copy(names, now)
		for name := range names {
			switch old, item := before[name], now[name]; {
			case len(old) == 1 && len(item) == 1:
				compare(path+"."+name, reflect.ValueOf(old[0]), reflect.ValueOf(item[0]), report)
			case len(old) == 0:
				report(path+"."+name, "added")
			case len(item) == 0:
				report(path+"."+name, "removed")
			case !reflect.DeepEqual(old, item):
				report(path+"."+name, "changed")
			}
		}
	default:
		report(path, "changed")
	}
}

// byName returns the items of a list by their names, because the keys of one caller share a name.
func byName(list reflect.Value) map[string][]any {
	items := map[string][]any{}
	for _, item := range list.Seq2() {
		name := item.Field(0).String()
		items[name] = append(items[name], item.Interface())
	}
	return items
}
