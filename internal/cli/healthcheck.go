package cli

import (
	"net/http"
	"time"

	"github.com/spf13/cobra"
)

// newHealthcheck is `poold healthcheck`, which asks /readyz.
func newHealthcheck(c *Console) *cobra.Command {
	command := &cobra.Command{
		Use:     "healthcheck",
		Short:   "ask a running daemon whether it is ready",
		Long:    "Asks a running daemon's /readyz: exit 0 where it is ready, 1 where it is not. For images without a shell.",
		Example: "  poold healthcheck --url http://127.0.0.1:8080",
		Args:    Words(0),
	}
	connect := ClientFlags(command, c)
	command.RunE = func(command *cobra.Command, _ []string) error {
		daemon, err := connect()
		if err != nil {
			return err
		}
		_, err = daemon.Ask(command.Context(), http.MethodGet, "/readyz", "application/json", 5*time.Second)
		return err
	}
	return command
}
