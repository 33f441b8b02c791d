package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"poold/internal/httpapi"
)

const (
	// replayTime is the timeout for a replay of dead letters. The daemon calls Redis for each dead
	// letter.
	replayTime = 5 * time.Minute
	// probeTime is the timeout for a probe, because the daemon calls the solving service during a
	// probe.
	probeTime = 30 * time.Second
)

// newAsk completes a command that sends one request and prints the response. The argument show is
// the function that formats the response; with --json the command prints the response unchanged.
func newAsk(c *Console, command *cobra.Command, ask func(words []string) apiRequest, show func([]byte) (string, error)) *cobra.Command {
	asJSON := command.Flags().Bool("json", false, "print the answer as JSON")
	onDaemon(command, c, func(ctx context.Context, daemon *Client, words []string) error {
		_, body, err := daemon.exchange(ctx, ask(words))
		if err != nil {
			return err
		}
		if *asJSON {
			return c.printAlone(body)
		}
		text, err := show(body)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(c.Stdout, strings.TrimRight(text, "\n"))
		return err
	})
	return command
}

// formatWith returns a function that decodes a response and formats the decoded document by calling
// text.
func formatWith[T any](text func(*T) string) func(answer []byte) (string, error) {
	return func(answer []byte) (string, error) {
		document, err := decode[T](answer)
		if err != nil {
			return "", err
		}
		return text(document), nil
	}
}

// newHealthcheck returns the command `poold healthcheck`, which requests /readyz.
func newHealthcheck(c *Console) *cobra.Command {
	command := &cobra.Command{
		Use:     "healthcheck",
		Short:   "ask a running daemon whether it is ready",
		Long:    "Exits with 0 if the /readyz of a running daemon answers 200, else with 1. For images without a shell.",
		Example: "  poold healthcheck --url http://127.0.0.1:8080",
		Args:    Words(0),
	}
	onDaemon(command, c, func(ctx context.Context, daemon *Client, _ []string) error {
		_, err := daemon.Ask(ctx, http.MethodGet, "/readyz", "application/json", 5*time.Second)
		return err
	})
	return command
}

func newProbe(c *Console) *cobra.Command {
	return newAsk(c, &cobra.Command{
		Use:   "probe PROVIDER",
		Short: "try a provider that is down, before its next retry",
		Long: "Tries a provider at once, after you have corrected its account. Asks for the balance if the file has\n" +
			"`balance: true`, and lets the next order through.",
		Example: "  poold probe captchaai",
		Args:    Words(0, "the name of a provider"),
	}, func(words []string) apiRequest {
		return apiRequest{method: http.MethodPost, path: "/providers/" + url.PathEscape(words[0]) + "/probe", limit: probeTime}
	}, formatWith(probeText))
}

// probeText describes, in one line, the state of a provider after a probe.
func probeText(p *httpapi.Probe) string {
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

func newDeadLetters(c *Console) *cobra.Command {
	command := &cobra.Command{
		Use:   "dead-letters COMMAND",
		Short: "list or replay callbacks that a running daemon could not store",
		Long:  "Lists the callbacks that a running daemon could not store, or stores these callbacks now.",
	}
	list := apiRequest{method: http.MethodGet, path: "/dead-letters", limit: StatusTime}
	replay := apiRequest{method: http.MethodPost, path: "/dead-letters/replay", limit: replayTime}
	addCommands(command,
		newAsk(c, &cobra.Command{
			Use: "list", Short: "list these callbacks, without tokens", Example: "  poold dead-letters list", Args: Words(0),
		}, func([]string) apiRequest { return list }, formatWith(letterText)),
		newAsk(c, &cobra.Command{
			Use: "replay", Short: "store these callbacks in Redis now", Example: "  poold dead-letters replay", Args: Words(0),
		}, func([]string) apiRequest { return replay }, formatWith(replayText)),
	)
	return command
}

func letterText(list *httpapi.LetterList) string {
	text := ""
	if list.Incomplete {
		text = "some dead letters cannot be read; the daemon's log says which\n"
	} else if len(list.Letters) == 0 {
		return "there are no dead letters"
	}
	t := &table{}
	t.plainRow("ORDER", "PROVIDER", "TASK", "KIND", "CODE", "ARRIVED", "AGE", "USELESS AFTER", "BYTES", "REASON")
	for _, l := range list.Letters {
		t.plainRow(l.Order, l.Provider, l.Task, l.Kind, l.Code, moment(l.Arrived), time.Duration(l.Age)*time.Second, moment(l.Until), l.Size, l.Reason)
	}
	return text + t.text(0)
}

func replayText(r *httpapi.Replayed) string {
	line := fmt.Sprintf("%d replayed, %d whose orders had ended, %d too old, %d left", r.Replayed, r.Dropped, r.Expired, r.Left)
	if r.Reason != "" {
		line += ": " + escapeWord(r.Reason)
	}
	return line
}
