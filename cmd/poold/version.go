package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is set by release builds (-ldflags "-X main.version=…").
var version = "dev"

// printVersion prints version, commit and Go version.
func printVersion(_ context.Context, c *command) error {
	if _, err := c.parse(newFlags(c), 0); err != nil {
		return err
	}
	_, err := fmt.Fprintf(c.stdout, "poold %s, commit %s, %s\n", version, commit(), runtime.Version())
	return err
}

// commit is what the binary was built from, as far as the Go tool wrote it down.
func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	revision, changed := "unknown", ""
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			revision = setting.Value
		case "vcs.modified":
			if setting.Value == "true" {
				changed = " (changed)"
			}
		}
	}
	return revision + changed
}
