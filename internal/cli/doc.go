// Package cli holds the commands that speak to a running daemon, and the tree of all
// commands.
//
// commands.go builds the tree for each run and words mistakes on the command line. help.go
// turns the tree into help, completion and man pages. client.go sends requests; ask.go and
// change.go complete the commands that send one request and the commands that change one
// target. The other commands have one file each. table.go formats tables, console.go values
// and output. Text of foreign origin is printed without control characters.
//
// The package opens no store and reads only key files, proxy files and pictures. Commands
// that read pools.yaml are in internal/check, internal/simulate and cmd/poold.
package cli
