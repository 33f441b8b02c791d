package cli

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// takeTime is added to the longest wait for a token, to get the timeout of the client.
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
	wait, life := new(waitTime), new(waitTime)
	flags.Var(wait, "wait", "how long to wait for a token, as a `duration` or in seconds, 60s at most (default what the target's on_empty says)")
	flags.Var(life, "min-ttl", "take a token with at least this much of its life left, as a `duration` or in seconds")
	asJSON := flags.Bool("json", false, "print the daemon's whole answer")
	connect := onDaemon(command, c, func(ctx context.Context, daemon *Client, words []string) error {
		query, limit := url.Values{}, time.Minute // the longest wait without the flag --wait, for targets with `on_empty: solve`
		if flags.Changed("wait") {
			query.Set("wait", time.Duration(*wait).String())
			limit = time.Duration(*wait)
		}
		if flags.Changed("min-ttl") {
			query.Set("min_ttl", time.Duration(*life).String())
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

// waitTime is the value of a flag for a duration. As in the API, a number without a unit means
// seconds.
type waitTime time.Duration

// String returns the duration with its unit, or "" for 0, so that the help shows no default.
func (s *waitTime) String() string {
	if *s == 0 {
		return ""
	}
	return time.Duration(*s).String()
}

// Set parses a duration such as 1m30s, or a number of seconds.
func (s *waitTime) Set(text string) error {
	if strings.Trim(text, "0123456789.") == "" {
		text += "s"
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return errors.New("must be a duration such as 20s; a number alone is seconds")
	}
	*s = waitTime(d)
	return nil
}

// Type names the kind of value; see mustBe.
func (s *waitTime) Type() string { return "seconds" }
