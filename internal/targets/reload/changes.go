package reload

import (
	"fmt"
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
		for name, item := range now {
			switch old, both := before[name]; {
			case !both:
				report(path+"."+name, "added")
			case old.Len() == 1 && item.Len() == 1:
				compare(path+"."+name, old.Index(0), item.Index(0), report)
			case !reflect.DeepEqual(old.Interface(), item.Interface()):
				report(path+"."+name, "changed")
			}
		}
		for name := range before {
			if _, both := now[name]; !both {
				report(path+"."+name, "removed")
			}
		}
	default:
		report(path, "changed")
	}
}

// byName returns the items of a list by their names, because the keys of one caller share a name.
func byName(list reflect.Value) map[string]reflect.Value {
	items := map[string]reflect.Value{}
	for i := range list.Len() {
		name := list.Index(i).Field(0).String()
		if _, has := items[name]; !has {
			items[name] = reflect.Zero(list.Type())
		}
		items[name] = reflect.Append(items[name], list.Index(i))
	}
	return items
}
