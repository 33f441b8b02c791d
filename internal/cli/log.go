package cli

import (
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"
)

// LogFlags adds the flags --log-format and --log-level. It returns a function that creates the
// logger for these flags.
func LogFlags(command *cobra.Command, c *Console) func() (*slog.Logger, error) {
	format := command.Flags().String("log-format", "text", "`text` or json")
	level := command.Flags().String("log-level", "info", "lowest `level` of the log lines: debug, info, warn or error")
	OneOf(command, "log-format", "text", "json")
	OneOf(command, "log-level", "debug", "info", "warn", "error")
	return func() (*slog.Logger, error) {
		var options slog.HandlerOptions
		var wanted slog.Level
		if err := wanted.UnmarshalText([]byte(*level)); err != nil {
			return nil, UsageError(fmt.Sprintf("--log-level is debug, info, warn or error, not %q", *level))
		}
		options.Level = wanted
		options.ReplaceAttr = readable
		switch *format {
		case "text":
			return slog.New(slog.NewTextHandler(c.Stderr, &options)), nil
		case "json":
			return slog.New(slog.NewJSONHandler(c.Stderr, &options)), nil
		}
		return nil, UsageError(fmt.Sprintf("--log-format is text or json, not %q", *format))
	}
}

// readable changes the attributes of log records. Durations become text, because a JSON number would
// lack the unit. Unknown times (zero) are omitted.
func readable(_ []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindDuration:
		a.Value = slog.StringValue(a.Value.Duration().String())
	case slog.KindTime:
		if a.Value.Time().IsZero() {
			return slog.Attr{}
		}
	}
	return a
}
