// Package targets parses pools.yaml into an immutable Set. The Set contains the wanted stocks of
// tokens and the providers that sell tokens.
//
// The package is the first step of this flow: pools.yaml → Set → refill → purchase → provider →
// purchase → pool → httpapi → caller. No other package parses the file. Package targets/reload
// replaces the Set when the file changes.
//
// # Reading
//
// Parse is a function of the bytes and of the References to variables and files, in three steps:
//
//   - Package targets/syntax parses the bytes into a tree of nodes with line numbers. Package
//     targets does not decode into structs with the YAML library, because the library's errors
//     quote values.
//   - section.go walks the tree and fills the structs. The tags of the struct fields (tags.go)
//     describe the valid values of each key. kinds.go parses the values and describes them for
//     Schema.
//   - targets.go, providers.go, server.go and other files check the rules that involve several
//     keys.
//
// The rules of reading:
//
//   - Parse reports all problems at once, sorted by line, in the form "pools.yaml:LINE: key path:
//     rule and remedy". A YAML syntax error is reported alone, because there is no tree to check.
//   - A problem quotes a value only if the file contains this value literally and the value cannot
//     be a secret. Values of variables and contents of files are never quoted.
//   - References such as ${NAME}, ${NAME:-default} and ${file:PATH} are replaced in values, never in
//     keys. The default applies if the variable is unset or empty. The key decides the type of the result:
//     `concurrency: ${N:-20}` is a number. It is also a number in quotes, which YAML requires
//     inside { } and [ ]. $${ stands for a literal ${.
//   - A number or a boolean in quotes is refused, unless the value contains a reference. Text needs
//     no quotes. A duration needs a unit.
//   - Anchors, aliases, merges and tags are refused, so that a file cannot expand in memory. Use
//     the section `defaults` instead.
//
// A target inherits its missing keys from the section `defaults`. A lifetime or margin that the
// defaults also lack comes from the section `types` or else from the built-in values. Each key of a
// budget is inherited separately. A list of windows (`warm`) is inherited as a whole; an empty list
// means no windows.
//
// ReadSolve parses the body of POST /solve, and SolveOf checks an identity from a client. Both use
// the same struct tags as Parse. References to the environment are not replaced in a request.
// Problems of a request have no line numbers.
//
// Solve.Allows decides whether a caller of POST /solve may request an identity without a target (a
// guest). page.go compares the page of the guest with the patterns of the file.
//
// # Invariants
//
//   - No two targets of a Set have the same identity, and no two server keys are equal.
//   - Every warm window has a next start within 50 years.
//   - Without server keys the daemon listens only on a loopback address. A reload that removes the
//     last key and breaks this rule is refused.
//   - Simulated tokens are stored only in the embedded Redis, unless the file lists the simulated
//     provider as the only provider.
//
// # Limits
//
// The package opens no file and no connection, reads no certificate and calls no provider. For
// instance, it cannot detect a wrong key of a provider.
package targets
