package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"poold/internal/check"
	"poold/internal/cli"
	"poold/internal/simulate"
)

// The exit codes, which docs/operating.md describes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	// The first signal stops the daemon in stages and restores the default handling of signals. A
	// second signal therefore kills the process immediately.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	code := run(ctx, os.Args[1:], os.LookupEnv, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// commands returns a description of this build of poold and of its commands.
func commands() cli.Program {
	return cli.Program{
		Version: version, Commit: commit(),
		Serve: newServe, HistoryInit: newHistoryInit,
		Others: []func(*cli.Console) *cobra.Command{check.Command, simulate.Command},
	}
}

// run executes the command line in the argument args and returns the exit code. It blocks until the
// command has ended. The end of ctx stops the command.
func run(ctx context.Context, args []string, lookup func(string) (string, bool), stdout, stderr io.Writer) int {
	root := commands().Root(&cli.Console{Lookup: lookup, Stdout: stdout, Stderr: stderr}) //nolint:contextcheck // ExecuteContextC passes ctx to the commands
	root.SetArgs(append([]string{}, args...))                                             // cobra would replace nil by the arguments of the process
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	// A failed write to stderr cannot be reported anywhere.
	_, _ = fmt.Fprintf(stderr, "%s: %s\n", command.CommandPath(), cli.PrintableLines(err.Error()))
	if errors.As(err, new(cli.UsageError)) {
		return exitUsage
	}
	return exitFailed
}
