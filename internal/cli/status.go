package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"poold/internal/refill"
	"poold/internal/status"
)

// watchEvery is the interval of `poold status --watch`.
const watchEvery = 2 * time.Second

// statusView selects a part of the status and its format.
type statusView struct {
	glob   string // "" = all targets
	state  string // "" = all states
	asJSON bool
}

func newStatus(c *Console) *cobra.Command {
	command := &cobra.Command{
		Use:   "status [GLOB]",
		Short: "show a running daemon's status, problems first",
		Long: "Shows a running daemon's status, problems first. GLOB selects targets by name; a single match is shown\n" +
			"with all its figures. HITS and REQUESTS cover the last hour, SPENT today (UTC).",
		Example: "  poold status\n  poold status 'staging-*' --state starved\n  poold status --watch",
		Args:    cobra.MaximumNArgs(1),
	}
	var v statusView
	command.Flags().StringVar(&v.state, "state", "", "only the targets in this `state`: "+strings.Join(status.States(), ", "))
	command.Flags().BoolVar(&v.asJSON, "json", false, "print the document; with --watch one line every 2 s")
	watched := command.Flags().Bool("watch", false, "print it again every 2 s, until interrupted")
	connect := ClientFlags(command, c)
	command.ValidArgsFunction = completeTargets(connect)
	command.RunE = func(command *cobra.Command, words []string) error {
		daemon, err := connect()
		if err != nil {
			return err
		}
		v.glob = strings.Join(words, "")
		if _, err := path.Match(v.glob, ""); err != nil {
			return UsageError(fmt.Sprintf("a GLOB has *, ? and [a-z], and %q is none", v.glob))
		}
		if states := status.States(); command.Flags().Changed("state") && !slices.Contains(states, v.state) {
			return UsageError(fmt.Sprintf("--state is one of %s, not %q", strings.Join(states, ", "), v.state))
		}
		if !*watched {
			return v.show(command.Context(), c, daemon)
		}
		return v.watch(command.Context(), c, daemon)
	}
	return command
}

// watch prints the status until ctx ends. An outage after the first status is reported on stderr.
func (v statusView) watch(ctx context.Context, c *Console, daemon *Client) error {
	for known := false; ; known = true {
		err := v.show(ctx, c, daemon)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // an interrupt by the user is the normal end
		}
		if err != nil && known {
			_, err = fmt.Fprintf(c.Stderr, "not live: %s\n", PrintableLines(err.Error()))
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(watchEvery):
		}
	}
}

// show prints the selected part of the status once.
func (v statusView) show(ctx context.Context, c *Console, daemon *Client) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	d, text, err := daemon.Status(ctx)
	if v.asJSON && v.glob == "" && v.state == "" && text != nil {
		return c.Print(string(text))
	}
	if err != nil {
		return err
	}
	d.Targets = slices.DeleteFunc(status.ProblemsFirst(d.Targets), func(t status.Target) bool {
		named, _ := path.Match(v.glob, t.Name)
		return v.glob != "" && !named || v.state != "" && t.State != v.state
	})
	if !v.asJSON {
		return c.Print(statusText(d, v.glob != ""))
	}
	if text, err = json.Marshal(d); err != nil {
		return err
	}
	return c.Print(string(text))
}

// statusText formats the status: what is wrong, tables of providers and targets, and the state of the
// daemon. If the user asked for targets by name and one matches, it shows all figures of this target.
func statusText(d *status.Document, asked bool) string {
	of := objects([]*status.Document{d})[0].(map[string]any)
	var text strings.Builder
	say := func(line string) { text.WriteString(Printable(line) + "\n") }
	say("as of " + d.AsOf)
	if !d.Config.OK && len(d.Config.Problems) > 0 {
		say("the configuration file was not applied; the last good one, of " + d.Config.LoadedAt + ", is in use:")
	}
	for _, line := range slices.Concat(d.Config.Problems, d.Alarms) {
		say(line)
	}
	providers, _ := of["providers"].([]any)
	text.WriteString("\n" + table(providers, "PROVIDER=name", "state", "ORDERS=in_flight", "LIMIT=concurrency", "balance", "callbacks"))
	var types []any // compares the providers
	for i, p := range d.Providers {
		if p.Reason != "" {
			text.WriteString(summed(p.State, "reason", "since", "retry_at", "remedy")(p.Name, providers[i].(map[string]any)) + "\n")
		}
		for _, x := range objects(p.Types) {
			x.(map[string]any)["provider"] = p.Name
			types = append(types, x)
		}
	}
	if len(types) > 0 {
		text.WriteString("\n" + table(types, "provider", "type", "share", "solved", "accepted", "LEAD=lead_p50_s", "cost"))
	}
	text.WriteString("\n" + targetTable(d))
	if asked && len(d.Targets) == 1 {
		text.WriteString("\n" + align(pairs("", objects(d.Targets)[0])))
	}
	text.WriteString("\n" + summed("poold "+d.Version, "ready", "currency", "dead_letters")("", of) + "\n")
	for _, part := range []struct {
		name   string
		fields []string
	}{
		{"redis", []string{"mode", "ok", "reason"}},
		{"history", []string{"ok", "waiting", "unrecorded", "reason"}},
		{"budget", []string{"used", "limit"}},
		{"solve", []string{"in_flight", "waiting", "requests", "bought", "solved", "failed", "spent", "reason"}},
		{"dedup", []string{"requests", "saved", "saved_pct", "missed", "refused", "reason"}},
	} {
		if fields, known := of[part.name].(map[string]any); known {
			text.WriteString(summed(part.name, part.fields...)("", fields) + "\n")
		}
	}
	for _, line := range d.Notices {
		say(line)
	}
	return text.String()
}

// objects converts structs to the objects of their JSON.
func objects(list any) (objects []any) {
	text, _ := json.Marshal(list) // the values came as JSON
	objects, _ = decode[[]any](text)
	return objects
}

// targetTable has a row for each target, and a line for each cause with the targets that have it.
func targetTable(d *status.Document) string {
	if len(d.Targets) == 0 {
		return "no target matches\n"
	}
	type row struct {
		status.Target
		Today status.Money `json:"today"`
	}
	var rows []row
	var causes []string
	names := map[string][]string{} // by cause
	for _, t := range d.Targets {
		x := row{Target: t}
		if len(t.Days) > 0 && strings.HasPrefix(d.AsOf, t.Days[0].Date) {
			x.Today = t.Days[0].Spent
		}
		rows = append(rows, x)
		cause := t.Reason
		if len(t.Marks) > 0 {
			cause += "; marked " + strings.Join(t.Marks, ", ")
		}
		if t.LimitedBy != "" && t.State != refill.Paused { // the reason of a pause already names the limit
			cause += "; held by " + t.LimitedBy
		}
		if cause != "" && names[cause] == nil {
			causes = append(causes, cause)
		}
		names[cause] = append(names[cause], t.Name)
	}
	text := table(objects(rows), "TARGET=name", "state", "fresh", "want", "warm", "ORDERS=in_flight", "waiting", "HITS=hour.hit_rate",
		"REQUESTS=hour.requests", "LEAD=lead_time_s.p50", "SPENT=today")
	for _, cause := range causes {
		who := names[cause]
		if len(who) > 3 {
			who = append(who[:3:3], fmt.Sprintf("%d more", len(who)-3))
		}
		text += Printable(strings.Join(who, ", ")+": "+strings.TrimPrefix(cause, "; ")) + "\n"
	}
	return text
}
