// Package cli contains the client commands of poold, and runs the command line.
//
// root.go builds the tree of commands and turns an error into an exit code. Most commands send one
// request and print its answer; they are rows of the table in commands.go, and request.go runs such a
// row. solve.go and status.go have the two commands that need more. client.go sends the requests,
// and output.go formats all answers.
//
// Texts of a daemon can come from a service or another user, so a terminal never gets their control
// characters. The package opens no store; the commands that read pools.yaml are in internal/check,
// internal/simulate and cmd/poold.
package cli
