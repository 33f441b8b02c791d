// Package reload keeps the last valid targets.Set of a configuration file and replaces it
// when the file changes.
//
// The package reads the file that package targets parses. The program cmd/poold creates a File. The
// packages status and httpapi read its Set and its Status. The package does not handle SIGHUP:
// cmd/poold catches the signal and calls Reload.
//
// # Watching
//
// A File polls the state of the configuration file and of the files to which it refers: the references
// ${file:PATH} and the certificates. The state says whether a file was written or replaced, and follows
// links, such as those of a ConfigMap in Kubernetes. The files are also read every 30 seconds, because
// a network disk may not show a change. If a file is invalid, empty, half written or missing, only the
// Status changes.
//
// A changed file is read after 200 ms without a further change, so that a half-written file is not
// applied, and at the latest 800 ms after the first one. Only regular files are read.
//
// # Invariants
//
//   - A returned Set never changes; a reload creates a new Set.
//   - Current returns a new Set only after the function Apply has returned, but the callers' keys of it at once.
//   - Settings that need a restart keep their values from the start; see targets.Set.KeepRestartOnly.
package reload
