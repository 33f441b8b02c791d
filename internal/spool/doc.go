// Package spool keeps dead letters on disk: callbacks that Redis could not store. purchase keeps and
// replays them.
//
// # Files
//
// One folder (0700) has one file (0600) for each letter, in JSON:
//
//	SHA-256 of the order's id in hex, .json    a letter
//	the same and .RANDOM.bad                   a bad file, set aside
//	letter-RANDOM.tmp                          an unfinished letter
//
// Files with other names are never touched. A letter is a secret: no file name and no error contains a
// part of it.
//
// # Invariants
//
//   - A letter for which Keep returned nil survives a crash and a power cut: the file is synced
//     under an unfinished name, renamed, and the folder is synced. A crash leaves unfinished files
//     and whole letters. Open removes the unfinished files.
//   - The first letter of an order is kept.
//   - A file with the name of a letter is bad if it is not a regular file, not readable, too large,
//     or not the letter of its name. The first call that finds it sets it aside and returns an
//     error. Errors of the disk set nothing aside.
//   - There are at most MostLetters letters, and at most as many files set aside; further bad
//     files are deleted.
//   - Each replica has its own folder. Several processes in one folder lose no letter, but each
//     counts the files of the others only when it lists the folder, which a replay does.
package spool
