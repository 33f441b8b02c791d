// Package cli holds the commands that speak to a running daemon, and the tree that all
// commands of poold hang in.
//
// Each command has a file of its own; its newX function returns flags, help and action.
// commands.go builds the tree anew for each run and words the mistakes on a command line;
// help.go, completion.go and man.go turn the tree into text. client.go sends requests.
// change.go holds what pause, resume, flush and warm share. statustable.go formats the status
// and watch.go follows its stream. terminal.go writes tables and removes control characters;
// format.go formats single values.
//
// The package reads no file but key files and pictures, and opens no store: these are
// internal/check and cmd/poold.
package cli
