package cli

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"
)

// takeTime is how long the daemon may take beyond what the caller waits.
const takeTime = 30 * time.Second

// newToken is `poold token`.
func newToken(c *Console) *cobra.Command {
	command := &cobra.Command{
		Use:   "token TARGET",
		Short: "take one token from a running daemon",
		Long:  "Takes one token from a running daemon and prints it alone.",
		Example: "  poold token staging-login --wait 20s\n" +
			"  poold token staging-login --min-ttl 30s --json",
		Args: Words(0, "the name of a target"),
	}
	flags := command.Flags()
	wait := flags.Duration("wait", 0, "wait so long for a token, 60s at most (default what the target's on_empty says)")
	life := flags.Duration("min-ttl", 0, "take a token with at least so much of its life left")
	asJSON := flags.Bool("json", false, "print the daemon's whole answer")
	connect := ClientFlags(command, c)
	completeTargets(command, connect)
	command.RunE = func(command *cobra.Command, words []string) error {
		daemon, err := connect()
		if err != nil {
			return err
		}
		wanted, most := url.Values{}, time.Minute // on_empty: solve waits so long
		if flags.Changed("wait") {
			wanted.Set("wait", wait.String())
			most = *wait
		}
		if flags.Changed("min-ttl") {
			wanted.Set("min_ttl", life.String())
		}
		body, err := takeToken(command.Context(), daemon, words[0], wanted, *asJSON, most+takeTime)
		if err != nil {
			return err
		}
		return c.printAlone(body)
	}
	return command
}

func takeToken(ctx context.Context, daemon *Client, target string, wanted url.Values, asJSON bool, limit time.Duration) ([]byte, error) {
	path := "/pool/" + url.PathEscape(target) + "/token"
	if len(wanted) > 0 {
		path += "?" + wanted.Encode()
	}
	accept := "text/plain"
	if asJSON {
		accept = "application/json"
	}
	// POST, because Go sends a GET again whose connection died, and that would
	// take a second token.
	return daemon.Ask(ctx, http.MethodPost, path, accept, limit)
}
