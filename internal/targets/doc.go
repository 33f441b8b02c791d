// Package targets parses pools.yaml into an immutable Set. The Set contains the wanted stocks of
// tokens and the providers that sell tokens.
//
// The package is the first step of this flow: pools.yaml → Set → refill → purchase → provider →
// purchase → pool → httpapi → caller. No other package parses the file. Package targets/reload
// replaces the Set when the file changes.
//
// # Reading
//
// Parse is a function of the bytes and of the References to variables and files:
//
//   - syntax.go parses the bytes into yaml.Node values with line numbers, or explains why they are
//     not YAML.
//   - set.go and the files of the sections have the structs: yaml tags name the keys, and the comments
//     of the fields are the reference of docs and the JSON Schema (docs_test.go).
//   - decode.go fills a struct from a node. It does not use the YAML library's own decoder, because
//     that one quotes values in its errors, and because 010, yes or 1_000 mean other things to people.
//   - Tags of the fields have the ranges of numbers and durations, the allowed words, and whether an
//     empty text is refused. The method preset of a struct sets its defaults, and the method validate
//     checks its other rules, which are plain Go: form, rule, check and warnIf (rules.go) report a
//     problem at a key. Rules between sections follow in readFile (parse.go).
//
// The rules of reading:
//
//   - Parse reports all problems at once, in the order of the file, in the form "pools.yaml:LINE: key
//     path: rule and remedy". A YAML syntax error is reported alone, because there is no tree to check.
//   - A problem quotes a value only if the file contains this value literally and the value cannot
//     be a secret. Values of variables and contents of files are never quoted.
//   - References such as ${NAME}, ${NAME:-default} and ${file:PATH} are replaced in values, never in
//     keys. The default applies if the variable is unset or empty. The key decides the type of the
//     result: `concurrency: ${N:-20}` is a number. The result is a number even if the reference is in
//     quotes, which YAML requires inside { } and [ ]. $${ means a literal ${.
//   - A number or a boolean in quotes is refused, unless the value contains a reference. Text needs
//     no quotes. A duration needs a unit.
//   - Anchors, aliases, merges and tags are refused, so that a file cannot expand in memory. Use
//     the section `defaults` instead.
//   - A key with an invalid value keeps its default, and rules of several keys are not checked for it.
//
// A target is decoded over a copy of the section `defaults`, so it inherits missing keys, each
// key of a budget separately. A lifetime or margin that the defaults also lack comes from the section
// `types` or else from the built-in values. A list of windows (`warm`) is inherited as a whole; an
// empty list means no windows.
//
// ReadSolve parses the body of POST /solve, and SolveOf checks an identity from a client, by the same
// rules. References to the environment are not replaced in a request. Problems of a request have no
// line numbers. Solve.Allows decides whether a caller of POST /solve may request an identity without a
// target (a guest): it compares the page with the patterns of the file.
//
// # Invariants
//
//   - No two targets of a Set have the same identity, and no two server keys are equal.
//   - Every warm window has a next start within five years.
//   - Without server keys the daemon listens only on a loopback address. A reload that removes the
//     last key and breaks this rule is refused.
//   - Simulated tokens are stored only in the embedded Redis, unless the file lists the simulated
//     provider as the only provider.
//
// # Limits
//
// The package opens no file and no connection, and calls no provider. For instance, it cannot detect a
// wrong key of a provider.
package targets
