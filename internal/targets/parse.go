package targets

import (
	"crypto/sha256"
	"encoding/hex"
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

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// set reads the file key by key, and then checks what its keys say together: all
// of it, whatever is wrong elsewhere, so that one run tells everything. Parse throws
// the Set away if anything was. The order of the sections in the file does not
// matter, but targets need to know the defaults, providers the Redis that they
// sell to, server keys the targets, and solve the server keys.
func (r *reader) set(data []byte) *Set {
	node := r.document(data)
	if node == nil {
		return nil
	}
	got, _ := pools.read(value{r: r, node: node, line: node.Line})
	root, ok := got.(record)
	if !ok {
		return nil // nothing can be said of its sections
	}
	set := new(Set)
	pools.preset(set)
	root.into(set)
	r.redis(root.section("redis"), set)
	r.deadLetters(root.section("dead_letters"), set)
	r.providers(root, set)
	inherited := r.defaults(root.section("defaults"))
	set.lives = r.lives(root.section("types"))
	r.dedup(root.section("dedup"), set)
	r.history(root.section("history"), set)
	if root.has("targets") {
		r.targets(root.items("targets"), set, inherited, set.lives)
	}
	r.server(root.section("server"), set)
	if rec, written := root.marks["solve"].got.(record); written {
		r.solve(rec, set, inherited)
	}
	r.agedRules(set)
	r.unusual(set)
	return set
}
