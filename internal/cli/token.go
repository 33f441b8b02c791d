package cli

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"
)

// takeTime is the time that the client allows the daemon beyond the longest wait for a token.
const takeTime = 30 * time.Second

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
	wait := flags.Duration("wait", 0, "how long to wait for a token, 60s at most (default what the target's on_empty says)")
	life := flags.Duration("min-ttl", 0, "take a token with at least this much of its life left")
	asJSON := flags.Bool("json", false, "print the daemon's whole answer")
	connect := onDaemon(command, c, func(ctx context.Context, daemon *Client, words []string) error {
		query, limit := url.Values{}, time.Minute // the longest wait without the flag --wait, for targets with `on_empty: solve`
		if flags.Changed("wait") {
			query.Set("wait", wait.String())
			limit = *wait
		}
		if flags.Changed("min-ttl") {
			query.Set("min_ttl", life.String())
		}
		path := "/pool/" + url.PathEscape(words[0]) + "/token"
		if len(query) > 0 {
			path += "?" + query.Encode()
		}
		accept := "text/plain"
		if *asJSON {
			accept = "application/json"
		}
		// The method is POST, because net/http repeats a GET after a broken connection, and the second
		// GET would take a second token.
		body, err := daemon.Ask(ctx, http.MethodPost, path, accept, limit+takeTime)
		if err != nil {
			return err
		}
		return c.printAlone(body)
	})
	completeTargets(command, connect)
	return command
}
