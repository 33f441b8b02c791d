// Package reload keeps the last valid targets.Set of a configuration file and replaces it
// when the file changes.
//
// It is the disk side of targets: cmd/poold makes a File, and status and httpapi read its
// Set and Status. It does not catch SIGHUP; cmd/poold does, and calls Reload.
//
// # Watching
//
// A File watches the directory, because a file that is replaced by a rename is another
// file. A poll every 30 seconds covers changes without an event. A file that is invalid,
// empty, half written or gone changes nothing but the Status.
//
// Only a regular file is read, and opening it does not wait for a writer. After 5 s the File gives up
// waiting for a read, because a network disk may hang, and reports that in the Status. It begins no
// second read before the first has ended, and does not wait for it when it stops.
//
// # Invariants
//
//   - A Set that was handed out never changes; the next one replaces it whole.
//   - A new Set is Current only after the OnApply function returned.
//   - The parts of a Set that need a restart stay as they were at the start; see
//     targets.Set.Succeed.
package reload
