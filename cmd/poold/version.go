package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version and revision are set by release builds and by the Dockerfile
// (-ldflags "-X main.version=… -X main.revision=…").
var version, revision = "dev", ""

// newVersion is `poold version`.
func newVersion(c *console) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "print version, commit and Go version",
		Example: "  poold version",
		Args:    words(0),
		RunE:    func(*cobra.Command, []string) error { return printVersion(c) },
	}
}

// printVersion prints version, commit and Go version.
func printVersion(c *console) error {
	_, err := fmt.Fprintf(c.stdout, "poold %s, commit %s, %s\n", version, commit(), runtime.Version())
	return err
}

// commit is what the binary was built from: what the build said, else what the Go tool
// wrote down.
func commit() string {
	if revision != "" {
		return revision
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	found, changed := "unknown", ""
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			found = setting.Value
		case "vcs.modified":
			if setting.Value == "true" {
				changed = " (changed)"
			}
		}
	}
	return found + changed
}
