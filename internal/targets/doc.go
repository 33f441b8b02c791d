// Package targets knows what is wanted: it turns pools.yaml into an immutable
// Set and keeps that Set current while the file changes.
//
// It is the first room of the house: pools.yaml → Set → refill → purchase →
// provider → purchase → pool → httpapi → the caller. Everybody downstream reads
// a Set and nobody else reads the file or the environment.
//
// # Reading
//
// Parse is a pure function of the bytes and of the environment. It goes in three
// steps: syntax.go makes a tree of the bytes, the tables of fields.go say what each
// key by itself may hold, and the rules in server.go, targets.go and the others check
// what keys say together and make the Set. The tree is walked here, because its nodes
// carry lines and because the library's own decoder quotes values in its errors.
// Schema describes the second step to editors: kinds.go has, for each kind of value,
// how it is read and how it is described, side by side.
//
// ReadSolve reads the body of POST /solve by the same kinds of value: json.go makes
// such a tree of it, request.go has the rules. Of the list below, what is said of
// references and lines does not hold there: a request sees no environment.
//
// A new key is a line in fields.go and a field of the same name in set.go
// (hit_rate, HitRate). These rules hold:
//
//   - Whatever is wrong is reported, all of it in one go, each as
//     "pools.yaml:LINE: key path: rule and remedy", sorted by line. Only a YAML
//     syntax error comes alone, since there is no tree to look at.
//   - A value is quoted in a problem only if it stood literally in the file and
//     its key cannot hold a secret. Environment values are never quoted.
//   - ${NAME} and ${NAME:-default} are replaced in values, never in keys. The
//     default serves for unset and for empty. What comes out is typed by the key
//     that it is for: `concurrency: ${N:-20}` is a number, and so is the quoted
//     form that YAML demands inside { } and [ ]. $${ is a literal ${, and a
//     dollar sign that no brace follows is itself.
//   - A number or a truth value that stands in quotes, without a reference, is a
//     wrong type; text need not be quoted. A duration always carries its unit.
//   - Anchors, aliases, merges and tags are refused: `defaults` does their work,
//     and no file can grow in memory.
//
// What a target does not say it takes from `defaults`, then (lifetime and
// margin) from `types`, then from the built-in values. A budget is taken key by
// key: a target that says per_hour alone keeps the per_day of the defaults. A
// list of windows (`warm`) is taken whole: an empty one switches them off.
//
// # Windows
//
// A window of `warm` begins by a cron expression; package cron describes them.
//
// # Guests
//
// A guest is an identity that no target has; POST /solve asks for it. Solve.Allows says
// whether it may be bought. A page is allowed by its scheme, host, port and path, each
// compared with that part of a pattern, and only where every program reads the address
// alike (page.go): the service must not find another host in it than poold did. In a
// pattern * is the only wildcard. In the host it crosses no dot, in the path it crosses
// slashes, as the port it is any. Queries are not compared, and escapes (%41) are
// compared as they are written.
//
// Guests live as long as their type says: Set.Life, by the section `types`, and 120 s
// less 40 s for what cannot be pooled.
//
// # Reloading
//
// File holds the last good Set. It watches the directory, not the file, because
// a file that is replaced by a rename is another file; a slow poll of the
// content covers what no event tells. A file that is bad, empty, half written or
// gone changes nothing but the Status. `server.listen`, `server.tls`, `redis`,
// `dead_letters`, `dedup` and `history` stay as they were at the start, whatever a later
// file says, and the rest of that file applies.
//
// Only a regular file is read, opened so that nothing waits for a writer. A disk
// that hangs, as one over the network does, is given up on after 5 s, which the
// Status says; the read that hangs is left alone, no second one is begun beside
// it, and a stop does not wait for it.
//
// # Invariants
//
//   - A Set that was handed out never changes; the next one replaces it whole.
//   - A new Set is Current only after the OnApply function returned.
//   - No two targets of a Set share an identity, no two keys a bearer.
//   - Every window comes again, within 50 years.
//   - Without server keys, the address listened on is a loopback one, also after
//     a reload that takes the last key away.
//   - A Redis other than the embedded one never meets a simulated provider that
//     the operator did not ask for by listing it alone.
//
// # What it does not do
//
// It opens no connection, reads no certificate and asks no provider: a file may
// be valid and its key wrong. It does not catch SIGHUP; cmd does, and calls
// Reload.
package targets
