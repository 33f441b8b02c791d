package targets

import (
	"crypto/sha256"
	"encoding/hex"
	"reflect"

	"poold/internal/targets/syntax"
)

// Parse parses the bytes of a configuration file. The argument `file` is the file name for messages.
// Parse calls the functions of refs for the references in the file. The error has the type Problems
// and contains all problems of the file. If there is an error, the Set is nil.
func Parse(file string, data []byte, refs References) (*Set, error) {
	r := &reader{file: file, refs: refs}
	set := r.readSet(data)
	if len(r.problems) > 0 {
		return nil, r.problems.sorted()
	}
	set.Warnings = r.warnings.sorted()
	set.Digest = digest(data)
	return set, nil
}

// IsOf reports whether the Set was parsed from the same bytes.
func (s *Set) IsOf(data []byte) bool { return s.Digest == digest(data) }

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// pools describes all sections and keys of the file.
var pools = sectionOf(reflect.TypeFor[file](), "")

// readSet reads the keys of the file one by one, and then checks the rules between keys. It
// continues after a problem, so that all problems are reported. If there is a problem, Parse
// discards the Set. The sections may have any order in the file, but are checked in a fixed order.
// Targets depend on the defaults, providers on Redis, server keys on the targets, and the section
// solve on the server keys.
func (r *reader) readSet(data []byte) *Set {
	node, problem := syntax.Document(data)
	if problem != nil {
		r.fail(problem.Line, "%s", problem.Text)
		return nil
	}
	f := new(file)
	e := pools.read(value{r: r, node: node, line: node.Line}, reflect.ValueOf(f).Elem())
	if !e.read {
		return nil // the file is not a mapping of sections
	}
	set := &f.Set
	set.DeadLetters = f.Letters.Dir
	set.lines = map[string]int{
		"server.listen": e.firstEntry("server").keys["listen"].line, "server.tls": e.firstEntry("server").keys["tls"].line,
		"redis": e.firstEntry("redis").firstEntry("url").line, "dead_letters": e.firstEntry("dead_letters").firstEntry("dir").line, "dedup": e.firstEntry("dedup").firstEntry("url", "backend").line,
		"history": e.firstEntry("history").firstEntry("keep", "audit", "url", "table", "endpoint", "region", "active_items", "backend").line,
	}
	set.Redis.check(e.firstEntry("redis"))
	r.checkProviders(e.firstEntry("providers"), set)
	defaults := &targetEntry{&f.Defaults, e.firstEntry("defaults")}
	if !defaults.hasKey("providers_policy") {
		f.Defaults.ProvidersPolicy = set.ProvidersPolicy
	}
	defaults.windowRules()
	defaults.budgetRules(defaults.Budget)
	set.lifetimes = f.Types.byType(e.firstEntry("types"))
	set.Dedup.check(e.firstEntry("dedup"))
	set.History.check(e.firstEntry("history"))
	r.checkTargets(e.firstEntry("targets").items, set, defaults)
	f.Listener.check(e.firstEntry("server"), set)
	if solve := e.firstEntry("solve"); solve.read {
		set.Solve.check(solve, set, defaults)
	}
	r.agedRules(set)
	r.warnUnusual(set)
	r.warnOfPolicies(e, set, defaults)
	kept := *set // a copy, so that the garbage collector can free f, which contains the texts of the server keys
	return &kept
}
