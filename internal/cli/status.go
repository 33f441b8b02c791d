package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"poold/internal/status"
)

// StatusTime is the timeout for a request for the status.
const StatusTime = 10 * time.Second

func newStatus(c *Console) *cobra.Command {
	command := &cobra.Command{
		Use:   "status [GLOB]",
		Short: "show a running daemon's status, problems first",
		Long: "Shows a running daemon's status, problems first. GLOB selects targets by name; a single match is shown\n" +
			"with all its figures. HITS and REQUESTS cover the last hour, SPENT today (UTC).",
		Example: "  poold status\n" +
			"  poold status 'staging-*' --state starved\n" +
			"  poold status --watch",
		Args: Words(1),
	}
	flags := command.Flags()
	var v statusView
	flags.StringVar(&v.state, "state", "", "only the targets in this `state`: "+strings.Join(status.States(), ", "))
	flags.BoolVar(&v.json, "json", false, "print the document; with --watch one line every 2 s")
	watched := flags.Bool("watch", false, "show it again every 2 s, until interrupted")
	connect := onDaemon(command, c, func(ctx context.Context, daemon *Client, words []string) error {
		if err := v.choose(words, flags.Changed("state")); err != nil {
			return err
		}
		if *watched {
			return watch(ctx, c, daemon, &v)
		}
		return v.show(ctx, c, daemon)
	})
	OneOf(command, "state", status.States()...)
	completeTargets(command, connect)
	return command
}

// statusView selects a part of the status and its format.
type statusView struct {
	glob  string // "" = all targets
	state string // "" = all states
	json  bool
}

// choose sets the glob from the arguments and validates the selection of targets.
func (v *statusView) choose(words []string, byState bool) error {
	v.glob = strings.Join(words, "")
	if _, err := path.Match(v.glob, ""); err != nil || len(words) > 0 && v.glob == "" {
		return UsageError(fmt.Sprintf("a GLOB has *, ? and [a-z], and %q is none", v.glob))
	}
	if states := status.States(); byState && !slices.Contains(states, v.state) {
		return UsageError(fmt.Sprintf("--state is one of %s, not %q%s", strings.Join(states, ", "), v.state, suggestion(v.state, "", states)))
	}
	return nil
}

// part returns a copy of a document that contains only the selected targets. Targets with problems
// come first.
func (v *statusView) part(d *status.Document) *status.Document {
	part := *d
	part.Targets = []status.Target{}
	for _, t := range status.ProblemsFirst(d.Targets) {
		named, err := path.Match(v.glob, t.Name)
		if (v.glob == "" || named && err == nil) && (v.state == "" || t.State == v.state) {
			part.Targets = append(part.Targets, t)
		}
	}
	return &part
}

// query returns the query of a request for the status. Only the JSON needs the minutes of each target.
func (v *statusView) query() string {
	if v.json {
		return ""
	}
	return "?minutes=0"
}

func (v *statusView) show(ctx context.Context, c *Console, daemon *Client) error {
	body, err := daemon.Ask(ctx, http.MethodGet, "/status.json"+v.query(), "application/json", StatusTime)
	if err != nil {
		return err
	}
	if v.json && v.glob == "" && v.state == "" {
		return c.printRaw(string(body))
	}
	document, err := decode[status.Document](body)
	if err != nil {
		return err
	}
	if !v.json {
		_, err := io.WriteString(c.Stdout, v.text(document, c.screen()))
		return err
	}
	return c.printJSON(v.part(document))
}

// text formats the selected part of a document for a terminal.
func (v *statusView) text(d *status.Document, s screen) string {
	return statusText(v.part(d), v.glob != "", s)
}

// AskStatus requests the status document of a running daemon, without Hour.Minutes of the targets.
func AskStatus(ctx context.Context, daemon *Client, limit time.Duration) (*status.Document, error) {
	return askStatus(ctx, daemon, "?minutes=0", limit)
}

func askStatus(ctx context.Context, daemon *Client, query string, limit time.Duration) (*status.Document, error) {
	body, err := daemon.Ask(ctx, http.MethodGet, "/status.json"+query, "application/json", limit)
	if err != nil {
		return nil, err
	}
	return decode[status.Document](body)
}
