package main

import "runtime/debug"

// Release builds and the Dockerfile set the variables version and revision by the linker flags
// -ldflags "-X main.version=… -X main.revision=…".
var version, revision = "dev", ""

// commit returns the commit from which this binary was built. The result is the variable revision
// if it is set, and otherwise the commit that the Go tool recorded in the binary.
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
