package cli

import (
	"context"
	"io"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"poold/internal/httpapi"
)

// newEvents returns the command `poold events`.
func newEvents(c *Console) *cobra.Command {
	command := &cobra.Command{
		Use:   "events",
		Short: "list what changed: reloads, pauses, outages, budgets",
		Long: "Lists what changed over all replicas, the newest first: reloads and refused files, pauses, flushes and probes,\n" +
			"outages of providers and Redis, used-up budgets, and starts and stops of replicas. Redis keeps the newest 1000\n" +
			"events for at most 30 days.",
		Example: "  poold events --limit 20",
		Args:    Words(0),
	}
	flags, given := command.Flags(), url.Values{}
	asJSON := flags.Bool("json", false, "print the daemon's answer as JSON")
	for name, help := range map[string]string{
		"limit":  "show at most `N` events, 1 to 1000 (default 50)",
		"before": "continue after an answer that had more, from its `id`",
	} {
		flags.Func(name, help, func(value string) error {
			given.Set(name, value)
			return nil
		})
	}
	onDaemon(command, c, func(ctx context.Context, daemon *Client, _ []string) error {
		path := "/events"
		if len(given) > 0 {
			path += "?" + given.Encode()
		}
		answer, err := daemon.Ask(ctx, http.MethodGet, path, "application/json", StatusTime)
		if err != nil {
			return err
		}
		if *asJSON {
			return c.printRaw(string(answer))
		}
		list, err := decode[httpapi.EventList](answer)
		if err != nil {
			return err
		}
		_, err = io.WriteString(c.Stdout, eventTable(list))
		return err
	})
	return command
}

// eventTable formats events. The texts may quote a service, so their control characters are replaced.
func eventTable(list *httpapi.EventList) string {
	if len(list.Events) == 0 {
		return "there are no events\n"
	}
	t := &table{}
	t.row("AT", "KIND", "SUBJECT", "ACTOR", "TEXT")
	for _, e := range list.Events {
		t.row(e.At.UTC().Format("2006-01-02 15:04:05"), escapeWord(string(e.Kind)), escapeWord(e.Subject), escapeWord(e.Actor), Printable(e.Text))
	}
	text := t.text(0)
	if list.Next != "" {
		text += "there are more: add --before " + escapeWord(list.Next) + "\n"
	}
	return text
}
