// Package cli implements the commands that send requests to a running daemon, and builds the tree
// of all commands.
//
// commands.go builds the tree of commands and reports mistakes on the command line. help.go builds
// the help texts, the shell completion and the man pages. client.go sends requests. ask.go contains
// the common code of the commands that send one request. change.go contains the common code of the
// commands that change one target. The other commands have one file each. table.go formats tables;
// console.go formats values and prints output. The commands replace or escape control characters in
// untrusted texts.
//
// The package opens no store. The package reads no files except key files, proxy files and
// pictures. The commands that read pools.yaml are in internal/check, internal/simulate and
// cmd/poold.
package cli
