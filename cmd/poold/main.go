package main

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"poold/internal/check"
	"poold/internal/cli"
	"poold/internal/simulate"
)

// Release builds and the Dockerfile set the variables version and revision by the linker flags
// -ldflags "-X main.version=… -X main.revision=…".
var version, revision = "dev", ""

func main() {
	// The first signal stops the daemon in stages and restores the default handling of signals. A
	// second signal therefore kills the process immediately.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	code := commands().Run(ctx, &cli.Console{Lookup: os.LookupEnv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr},
		os.Args[1:])
	stop()
	os.Exit(code)
}

// commands describes this build of poold and its commands.
func commands() cli.Program {
	return cli.Program{
		Version: version + ", commit " + commit() + ", " + runtime.Version(),
		Serve:   newServe, HistoryInit: newHistoryInit,
		Others: func(c *cli.Console) []*cobra.Command {
			return []*cobra.Command{check.Command(c), check.Init(c), simulate.Command(c)}
		},
	}
}

// commit returns the commit of this binary: the variable revision, or the version that the Go tool
// recorded, which contains the commit.
func commit() string {
	if info, ok := debug.ReadBuildInfo(); ok && revision == "" {
		return info.Main.Version
	}
	return revision
}
