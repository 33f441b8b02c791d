package reload

import (
	"fmt"
	"reflect"

	"poold/internal/targets"
)

// maxNamed is the maximum number of names in a Change.
const maxNamed = 20

// Change is one kind of difference that a reload made, such as added or removed, with the names of the
// targets or sections.
type Change struct {
	How   string // added, changed or removed (targets), or sections
	Names []string
}

// attributes returns the changes as attributes of a log line.
func attributes(changes []Change) (list []any) {
	for _, c := range changes {
		list = append(list, c.How, c.Names)
	}
	return list
}

// changesBetween returns the targets that a reload added, changed or removed, and the other sections
// that it changed. It shortens long lists. The result is empty if only comments changed, or if there
// is no old Set.
func changesBetween(old, set *targets.Set) (changes []Change) {
	if old == nil {
		return nil
	}
	before := make(map[string]targets.Target, len(old.Targets))
	for _, t := range old.Targets {
		before[t.Name] = t
	}
	var added, changed, removed []string
	for _, t := range set.Targets {
		was, known := before[t.Name]
		delete(before, t.Name)
		was.Line = t.Line
		switch {
		case !known:
			added = append(added, t.Name)
		case !reflect.DeepEqual(was, t):
			changed = append(changed, t.Name)
		}
	}
	for _, t := range old.Targets { // in the order of the old Set
		if _, gone := before[t.Name]; gone {
			removed = append(removed, t.Name)
		}
	}
	for _, c := range []Change{{"added", added}, {"changed", changed}, {"removed", removed}, {"sections", changedSections(old, set)}} {
		if len(c.Names) > 0 {
			changes = append(changes, Change{c.How, shortList(c.Names)})
		}
	}
	return changes
}

// changedSections returns the names of the sections that differ between the two Sets, except targets and
// settings that need a restart.
func changedSections(old, set *targets.Set) (names []string) {
	for _, section := range []struct {
		name    string
		was, is any
	}{
		{"server.keys", old.Server.Keys, set.Server.Keys},
		{"server.connections", old.Server.Connections, set.Server.Connections},
		{"server.tls", old.Server.TLS, set.Server.TLS},
		{"redis.url", old.Redis.URL, set.Redis.URL},
		{"dedup.url", old.Dedup.URL, set.Dedup.URL},
		{"history.url", old.History.URL, set.History.URL},
		{"server.callback_secrets", old.Server.CallbackSecrets, set.Server.CallbackSecrets},
		{"providers", withoutLines(old.Providers), withoutLines(set.Providers)},
		{"providers_policy", old.ProvidersPolicy, set.ProvidersPolicy},
		{"budget", old.Budget, set.Budget},
		{"currency", old.Currency, set.Currency},
		{"solve", old.Solve, set.Solve},
	} {
		if !reflect.DeepEqual(section.was, section.is) {
			names = append(names, section.name)
		}
	}
	return names
}

func withoutLines(all []targets.Provider) (same []targets.Provider) {
	for _, p := range all {
		p.Line = 0
		same = append(same, p)
	}
	return same
}

// shortList shortens a list of names.
func shortList(names []string) []string {
	if len(names) <= maxNamed {
		return names
	}
	return append(names[:maxNamed:maxNamed], fmt.Sprintf("and %d more", len(names)-maxNamed))
}
