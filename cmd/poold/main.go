package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Exit codes; docs/operating.md.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	// The first signal stops in stages; after it the default is back, so that a
	// second one ends the process at once.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	code := run(ctx, os.Args[1:], os.LookupEnv, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// console is what the commands see of the world around the process.
type console struct {
	lookup func(string) (string, bool) // of the environment
	stdout io.Writer
	stderr io.Writer
}

// env returns the variable's value, or the default where it is unset or empty.
func (c *console) env(name, otherwise string) string {
	if value, ok := c.lookup(name); ok && value != "" {
		return value
	}
	return otherwise
}

// usageError is a mistake on the command line.
type usageError struct{ text string }

func (e usageError) Error() string { return e.text }

// run does what the arguments say and returns the exit code. It blocks until
// that is done or ctx ends.
func run(ctx context.Context, args []string, lookup func(string) (string, bool), stdout, stderr io.Writer) int {
	root := newRoot(&console{lookup: lookup, stdout: stdout, stderr: stderr}) //nolint:contextcheck // the commands get it by ExecuteContextC
	root.SetArgs(append([]string{}, args...))                                 // nil would be the arguments of the process
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	// What cannot be said on stderr cannot be said anywhere: its errors are ignored.
	_, _ = fmt.Fprintf(stderr, "%s: %s\n", command.CommandPath(), printableLines(err.Error()))
	if errors.As(err, new(usageError)) {
		return exitUsage
	}
	return exitFailed
}
