// Package spool stores dead letters on disk. A dead letter is a callback that Redis could not store.
// Package purchase writes and replays the dead letters.
//
// # Files
//
// One folder (mode 0700) has one JSON file (mode 0600) for each letter:
//
//	SHA-256 of the order's id in hex, .json    a letter
//	the same and .RANDOM.bad                   a bad file, set aside
//	letter-RANDOM.tmp                          an unfinished letter
//
// The package never changes files with other names. A letter is a secret, so no file name and no
// error contains a part of a letter.
//
// # Invariants
//
//   - A letter for which Keep returned nil survives a crash and a power cut: Keep writes the file
//     under the name of an unfinished letter, syncs and renames it, and then syncs the folder. A
//     crash leaves only unfinished files and complete letters. Open removes the unfinished files.
//   - If an order has several letters, the first one is kept.
//   - A file with the name of a letter is bad if it is not a regular file, not readable or too
//     large, or if the letter in it does not match its name. The first call that finds a bad file
//     sets the file aside and returns an error. Disk errors do not make a file bad.
//   - A folder has at most MostLetters letters, and at most the same number of files set aside.
//     Further bad files are deleted.
//   - Each replica has its own folder. Several processes that share a folder lose no letter, but
//     each process counts the files of the others only when it lists the folder, as each replay
//     does.
package spool
