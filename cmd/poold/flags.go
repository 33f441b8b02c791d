package main

import (
	"flag"
	"fmt"
	"log/slog"
	"net"
	"strconv"
)

func newFlags(c *command) *flag.FlagSet {
	return flag.NewFlagSet(c.name, flag.ContinueOnError)
}

// checkAddress refuses a --listen that cannot be one.
func checkAddress(address string) error {
	if address == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return usageError{fmt.Sprintf("--listen (or POOLD_LISTEN) is host:port with a port up to 65535, not %q", address)}
	}
	return nil
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
		// As text everywhere: a JSON number of nanoseconds names no unit.
		options.ReplaceAttr = func(_ []string, a slog.Attr) slog.Attr {
			if a.Value.Kind() == slog.KindDuration {
				a.Value = slog.StringValue(a.Value.Duration().String())
			}
			return a
		}
		switch *format {
		case "text":
			return slog.New(slog.NewTextHandler(c.stderr, &options)), nil
		case "json":
			return slog.New(slog.NewJSONHandler(c.stderr, &options)), nil
		}
		return nil, usageError{fmt.Sprintf("--log-format is text or json, not %q", *format)}
	}
}
