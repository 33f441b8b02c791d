package main

import "runtime/debug"

// version and revision are set by release builds and by the Dockerfile
// (-ldflags "-X main.version=… -X main.revision=…").
var version, revision = "dev", ""

// commit returns the commit of the binary: of the build's flags, else of the Go tool's stamp.
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
