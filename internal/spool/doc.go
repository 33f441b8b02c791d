// Package spool stores dead letters on disk. A dead letter is a callback that Redis could not store.
// Package purchase writes and replays them.
//
// A folder (mode 0700), which each replica has for itself, has one JSON file (mode 0600) for each letter:
//
//	SHA-256 of the order's id in hex, .json    a letter
//	letter-RANDOM.tmp                          an unfinished letter; Open removes it
//
// Other files are never touched. A letter is a secret: no file name and no error has a part of it.
//
// A letter for which Keep returned nil survives a crash and a power cut: its file is written under the name of an
// unfinished letter, synced and renamed, and then the folder is synced. If an order gets several letters, the first one
// is kept. An error names each invalid file; the file stays until a letter for the same order replaces it or an
// operator removes it.
package spool
