package cli

import (
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"poold/internal/status"
)

// newPause is `poold pause`.
func newPause(c *Console) *cobra.Command {
	command := &cobra.Command{
		Use:     "pause TARGET",
		Short:   "buy nothing for a target; what is ready is still handed out",
		Long:    "Pauses a target over all replicas: nothing is bought for it. What is ready is still handed out.",
		Example: "  poold pause staging-login --for 1h --reason \"the page changes\"",
	}
	flags := command.Flags()
	length := flags.Duration("for", 0, "how long, from 1s to 720h (default until it is resumed)")
	reason := flags.String("reason", "", "a `text` that the status shows, at most 200 characters")
	return newChange(c, command, change{
		method: http.MethodPost, path: "/pause",
		body: func() (map[string]any, error) {
			fields := map[string]any{}
			if flags.Changed("for") {
				fields["for"] = length.String()
			}
			if flags.Changed("reason") {
				fields["reason"] = *reason
			}
			return fields, nil
		},
		tell: func(_, after *status.Target) string {
			text := "paused until it is resumed"
			if flags.Changed("for") {
				text = "paused until " + moment(time.Now().Add(*length))
			}
			if after != nil {
				text += fmt.Sprintf("; %s ready and %d on order are still handed out", tokens(after.Fresh), after.InFlight)
			}
			return text
		},
	})
}
