package main

import (
	"flag"
	"fmt"
	"log/slog"
)

func newFlags(c *command) *flag.FlagSet {
	return flag.NewFlagSet(c.name, flag.ContinueOnError)
}

func configFlag(flags *flag.FlagSet, c *command) *string {
	return flags.String("config", c.env("POOLD_CONFIG", "pools.yaml"), "the `file` with everything in it")
}

// logFlags adds --log-format and --log-level and returns a function that makes
// the logger they describe.
func logFlags(flags *flag.FlagSet, c *command) func() (*slog.Logger, error) {
	format := flags.String("log-format", "text", "text or json")
	level := flags.String("log-level", "info", "debug, info, warn or error")
	return func() (*slog.Logger, error) {
		var options slog.HandlerOptions
		var wanted slog.Level
		if err := wanted.UnmarshalText([]byte(*level)); err != nil {
			return nil, usageError{fmt.Sprintf("--log-level is debug, info, warn or error, not %q", *level)}
		}
		options.Level = wanted
		switch *format {
		case "text":
			return slog.New(slog.NewTextHandler(c.stderr, &options)), nil
		case "json":
			return slog.New(slog.NewJSONHandler(c.stderr, &options)), nil
		}
		return nil, usageError{fmt.Sprintf("--log-format is text or json, not %q", *format)}
	}
}
