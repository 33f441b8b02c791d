package cli

import (
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"poold/internal/status"
)

// newWarm is `poold warm`.
func newWarm(c *Console) *cobra.Command {
	command := &cobra.Command{
		Use:   "warm TARGET --tokens N --for TIME",
		Short: "keep so many tokens of a target ready for a time",
		Long: "Keeps at least so many tokens of a target ready for a time, over all replicas. 0 tokens end all windows that\n" +
			"were not made in the file.",
		Example: "  poold warm staging-login --tokens 10 --for 30m\n" +
			"  poold warm staging-login --tokens 10 --for 30m --at 2026-12-01T08:55:00Z\n" +
			"  poold warm staging-login --tokens 0",
	}
	flags := command.Flags()
	wanted := flags.Int("tokens", 0, "how many, from 0 to 10000")
	length := flags.Duration("for", 0, "how long, from 1s to 24h")
	at := flags.String("at", "", "the `time` (RFC 3339) from which on, at most 30 days ahead (default now)")
	return newChange(c, command, change{
		method: http.MethodPost, path: "/warm",
		body: func() (map[string]any, error) {
			if !flags.Changed("tokens") {
				return nil, UsageError("needs --tokens")
			}
			fields := map[string]any{"tokens": *wanted}
			if flags.Changed("for") {
				fields["for"] = length.String()
			}
			if flags.Changed("at") {
				fields["at"] = *at
			}
			return fields, nil
		},
		tell: func(_, after *status.Target) string {
			text := "the windows that were not made in the file are ended"
			if *wanted > 0 {
				begin := time.Now()
				if begins, err := time.Parse(time.RFC3339, *at); err == nil {
					begin = begins
				}
				text = fmt.Sprintf("%s kept ready from %s to %s", tokens(*wanted), moment(begin), moment(begin.Add(*length)))
			}
			if after != nil {
				text += fmt.Sprintf("; %d ready and %d on order now", after.Fresh, after.InFlight)
			}
			return text
		},
	})
}
