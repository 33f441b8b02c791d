package targets

import (
	"crypto/sha256"
	"encoding/hex"

	"gopkg.in/yaml.v3"
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

// set reads the sections. Their order in the file does not matter, but targets
// need to know the defaults, and providers the Redis that they sell to.
func (r *reader) set(data []byte) *Set {
	root := r.document(data)
	if root == nil {
		return nil
	}
	whole := value{r: r, node: root, line: root.Line}
	sections := make(map[string]value)
	known := keys{}
	// A section that is not there reads as an empty one.
	for _, name := range []string{"server", "redis", "providers", "budget", "dead_letters", "types", "defaults", "targets"} {
		sections[name] = value{r: r, node: &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}, path: name, line: root.Line}
		known[name] = func(v value) bool { sections[name] = v; return true }
	}
	g, ok := whole.section(known, nil)
	if !ok {
		return nil
	}
	whole.missing(g, "providers", "targets")

	// From here on everything is read, whatever is wrong elsewhere, so that one run
	// tells all of it; Parse throws the Set away if anything was.
	set := new(Set)
	r.redis(sections["redis"], set)
	r.budget(sections["budget"], &set.Budget)
	r.deadLetters(sections["dead_letters"], set)
	if g.has("providers") {
		r.providers(sections["providers"], set)
	}
	lives, defaults := r.lives(sections["types"]), r.defaults(sections["defaults"])
	if g.has("targets") {
		r.targets(sections["targets"], set, defaults, lives)
	}
	r.server(sections["server"], set)
	r.unusual(set)
	return set
}
