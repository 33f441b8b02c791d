package targets

import (
	"crypto/sha256"
	"encoding/hex"
	"reflect"

	"poold/internal/targets/syntax"
)

// Parse reads the bytes of a configuration file. file is its name in messages.
// lookup answers environment variables as os.LookupEnv does; nil is an empty
// environment. The error is Problems: everything that is wrong, not the first
// thing. A Set comes only without an error.
func Parse(file string, data []byte, lookup func(string) (string, bool)) (*Set, error) {
	r := &reader{file: file, lookup: lookup}
	set := r.set(data)
	if len(r.problems) > 0 {
		return nil, r.problems.sorted()
	}
	set.Warnings = r.warnings.sorted()
	set.Digest = digest(data)
	return set, nil
}

// IsOf reports whether the Set was parsed from these bytes.
func (s *Set) IsOf(data []byte) bool { return s.Digest == digest(data) }

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// pools describes the whole file.
var pools = sectionOf(reflect.TypeFor[file](), "")

// set reads the file key by key, and then checks what its keys say together. It checks all
// of it, whatever is wrong elsewhere, so that one run reports everything; Parse discards
// the Set then. The order of the sections in the file does not matter. The order here does:
// targets need the defaults, providers the Redis that they sell to, server keys the
// targets, and solve the server keys.
func (r *reader) set(data []byte) *Set {
	node, problem := syntax.Document(data)
	if problem != nil {
		r.fail(problem.Line, "%s", problem.Text)
		return nil
	}
	f := new(file)
	e := pools.read(value{r: r, node: node, line: node.Line}, reflect.ValueOf(f).Elem())
	if !e.read {
		return nil // the file has no sections
	}
	set := &f.Set
	set.DeadLetters = f.Letters.Dir
	set.lines = map[string]int{
		"server.listen": e.at("server").keys["listen"].line, "server.tls": e.at("server").keys["tls"].line,
		"redis": e.at("redis").at("url").line, "dead_letters": e.at("dead_letters").at("dir").line, "dedup": e.at("dedup").at("url", "backend").line,
		"history": e.at("history").at("keep", "audit", "url", "table", "endpoint", "region", "active_items", "backend").line,
	}
	set.Redis.check(e.at("redis"))
	r.checkProviders(e.at("providers"), set)
	defaults := &targetEntry{&f.Defaults, e.at("defaults")}
	defaults.windowRules()
	defaults.budgetRules(defaults.Budget)
	set.lives = f.Types.byType(e.at("types"))
	set.Dedup.check(e.at("dedup"))
	set.History.check(e.at("history"))
	r.checkTargets(e.at("targets").items, set, defaults)
	f.Listener.check(e.at("server"), set)
	if solve := e.at("solve"); solve.read {
		set.Solve.check(solve, set, defaults)
	}
	r.agedRules(set)
	r.warnUnusual(set)
	kept := *set // a copy, because f has the bearers of the server keys
	return &kept
}
