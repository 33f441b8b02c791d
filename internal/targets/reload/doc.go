// Package reload keeps the last valid targets.Set of a configuration file and replaces it
// when the file changes.
//
// The package reads the file that package targets parses. The program cmd/poold creates a File. The
// packages status and httpapi read its Set and its Status. The package does not handle SIGHUP:
// cmd/poold catches the signal and calls Reload.
//
// # Watching
//
// A File reads the configuration file and the files to which it refers, the references ${file:PATH} and
// the certificates, every 200 ms, and compares their digests. So it also follows links, such as in a
// ConfigMap in Kubernetes, and notices changes on a network disk. If a file is invalid, empty, half written
// or missing, only the Status changes.
//
// A changed file is applied after 200 ms without a further change, so that a half-written file is not
// applied, and at the latest 800 ms after the first one. Only regular files are read.
//
// # Invariants
//
//   - A returned Set never changes; a reload creates a new Set.
//   - Current returns a new Set only after the function Apply has returned. Only the callers' keys of the new Set are
//     returned at once.
//   - Settings that need a restart keep their values from the start; see targets.Set.KeepRestartOnly.
package reload
