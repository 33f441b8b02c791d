package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"poold/internal/httpapi"
)

// probeTime is the most that a probe of a provider may take: a call to the service.
const probeTime = 30 * time.Second

// newProbe is `poold probe`.
func newProbe(c *Console) *cobra.Command {
	command := &cobra.Command{
		Use:   "probe PROVIDER",
		Short: "try a provider at once that is down",
		Long: "Tries a provider at once, after you have seen to its account: asks for the balance, where the file says\n" +
			"`balance: true`, and lets the next order through.",
		Example: "  poold probe captchaai",
		Args:    Words(0, "the name of a provider"),
	}
	asJSON := command.Flags().Bool("json", false, "print the answer of the daemon")
	connect := ClientFlags(command, c)
	command.RunE = func(command *cobra.Command, words []string) error {
		daemon, err := connect()
		if err != nil {
			return err
		}
		q := question{method: http.MethodPost, path: "/providers/" + url.PathEscape(words[0]) + "/probe", limit: probeTime, success: http.StatusOK}
		_, body, err := daemon.exchange(command.Context(), q)
		if err != nil {
			return err
		}
		if *asJSON {
			return c.printDone(body, nil)
		}
		var p httpapi.Probe
		if err := json.Unmarshal(body, &p); err != nil {
			return fmt.Errorf("reading the answer: %w", err)
		}
		_, err = fmt.Fprintln(c.Stdout, probed(p))
		return err
	}
	return command
}

// probed says in one line how a provider does after a probe.
func probed(p httpapi.Probe) string {
	text := Printable(p.Name) + " is " + Printable(p.State)
	if p.Reason != "" {
		text += ": " + Printable(p.Reason)
	}
	if p.Remedy != "" {
		text += "; " + Printable(p.Remedy)
	}
	if p.State == "down" {
		text += "; the next order is the probe"
	}
	return text
}
