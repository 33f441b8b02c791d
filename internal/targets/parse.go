package targets

import (
	"crypto/sha256"
	"encoding/hex"
	"reflect"

	"poold/internal/targets/syntax"
)

// Parse reads the bytes of a configuration file. file is its name in messages. lookup returns
// environment variables like os.LookupEnv; nil is an empty environment. The error is Problems, with
// all problems of the file. The Set is nil if there is an error.
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

// set reads the file key by key, and then checks the rules between keys. It checks everything in
// spite of problems, so that one run reports all of them; Parse then discards the Set. The sections
// may be in any order in the file. They are checked in this order, because targets depend on the
// defaults, providers on Redis, server keys on the targets, and solve on the server keys.
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
	set.lifetimes = f.Types.byType(e.at("types"))
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
