// Package spool keeps dead letters on disk: what Redis could not take, until it can.
// To this package a letter is bytes with a key and an age, which its owner reads from
// the bytes (Parse). It knows nothing of what they mean.
//
// # What is on disk
//
// One directory (0700) with one file (0600) a letter:
//
//	SHA-256 of the key in hex, .json           a letter
//	the same and .RANDOM.bad                   an invalid letter, set aside
//	letter-RANDOM.tmp                          is being written
//
// Other names are never touched. A key may hold anything, and secrets too: it is in no
// name, and neither it nor the bytes are in an error.
//
// # How a letter is stored
//
// It is written to a .tmp file and synced, gets its own name by a link, the .tmp name
// is removed, and the directory is synced. A link replaces nothing, so the first letter
// of a key stays. Where the file system knows no links it is a rename, after a look
// whether the name is free; two processes that store one key at the same moment may
// then both win, the later one on disk. Directories that are made are synced into
// their parents. (Writing and syncing: file.go; link or rename: Spool.place in spool.go.)
//
// # What is guaranteed
//
//   - A letter for which Put answered nil outlives a crash and a power cut.
//   - A crash leaves .tmp files and whole letters, never half a letter under a letter's
//     name. Open clears the .tmp files away. One of a process that is writing in the
//     same directory may be among them: its Put writes the file again.
//   - A file with a letter's name that is no letter (no regular file, not readable, too
//     large, refused by Parse, of another key) is set aside by the first call that meets
//     it. It is returned as an error once, never read again, and blocks no other letter, nor one of
//     the same key. Errors of the disk set nothing aside.
//   - There are at most MostLetters letters, and at most as many files set aside: what
//     is more is deleted. A letter has at most 64 KiB. Of several
//     processes on one directory each counts what it found in its last listing and
//     what it stored since.
//
// # Counts
//
// Count and SetAside are what this process knows: each listing of the directory
// corrects them, unless something was stored or removed meanwhile (count.go).
package spool
