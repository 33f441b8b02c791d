// Package targets turns pools.yaml into an immutable Set: the wanted stocks of tokens, and
// the providers that sell them.
//
// It is the beginning of the flow: pools.yaml → Set → refill → purchase → provider →
// purchase → pool → httpapi → caller. No other package reads the file. Package reload, below
// this one, keeps the Set current while the file changes.
//
// # Reading
//
// Parse is a pure function of the bytes and of the environment, in three steps:
//
//   - Package syntax makes a tree of nodes with line numbers. The YAML library's decoder is not used,
//     because its errors quote values.
//   - section.go walks the tree and fills the structs. The tags of their fields (tags.go)
//     say what each key may hold; kinds.go reads the values and describes them, for Schema.
//   - The rules in targets.go, providers.go, server.go and others check what the keys say
//     together.
//
// These rules hold:
//
//   - Parse reports every problem at once, sorted by line, each as
//     "pools.yaml:LINE: key path: rule and remedy". A YAML syntax error comes alone,
//     because the tree is missing.
//   - A problem quotes a value only if the file has it literally and its key cannot hold a
//     secret. Values of the environment are never quoted.
//   - ${NAME} and ${NAME:-default} are replaced in values, never in keys. The default
//     applies if the variable is unset or empty. The key decides the type of the result: both
//     `concurrency: ${N:-20}` and the quoted form, which YAML demands inside { } and [ ],
//     are numbers. $${ is a literal ${.
//   - A number or a truth value in quotes, without a reference, has the wrong type. Text needs
//     no quotes. A duration needs a unit.
//   - Anchors, aliases, merges and tags are refused, so a file cannot grow in memory.
//     `defaults` replaces them.
//
// A target inherits missing keys from `defaults`, then (lifetime and margin) from
// `types`, then from the built-in values. A budget is inherited key by key. A list of
// windows (`warm`) is inherited whole; an empty list means none.
//
// ReadSolve reads the body of POST /solve, and SolveOf checks an identity that a client
// submitted, by the same tags. A request sees no environment and has no lines.
//
// Solve.Allows decides which identities without a target (guests) a caller of POST /solve may
// request.
// page.go compares their pages with the patterns of the file.
//
// # Invariants
//
//   - No two targets of a Set have the same identity, and no two server keys are equal.
//   - Every window begins again within 50 years.
//   - Without server keys the daemon listens on a loopback address, also after a reload that
//     removes the last key.
//   - Simulated tokens enter only the embedded Redis, unless the simulated provider is the
//     only one listed.
//
// # Limits
//
// The package opens no file and no connection, reads no certificate and calls no provider. So a
// valid file may contain a wrong key.
package targets
