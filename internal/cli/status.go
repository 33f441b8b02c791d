package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"poold/internal/status"
)

// watchEvery is the interval of `poold status --watch`.
const watchEvery = 2 * time.Second

func newStatus(c *Console) *cobra.Command {
	command := &cobra.Command{
		Use:   "status [GLOB]",
		Short: "show a running daemon's status, problems first",
		Long: "Shows a running daemon's status, problems first. GLOB selects targets by name; a single match is shown\n" +
			"in detail. HIT RATE and REQUESTS cover the last hour, SPENT today (UTC).",
		Example: "  poold status\n  poold status 'staging-*'\n  poold status --watch",
		Args:    cobra.MaximumNArgs(1),
	}
	asJSON := command.Flags().Bool("json", false, "print the document; with --watch one line every 2 s")
	watched := command.Flags().Bool("watch", false, "print it again every 2 s, until interrupted")
	connect := ClientFlags(command, c)
	command.RunE = func(command *cobra.Command, words []string) error {
		daemon, err := connect()
		if err != nil {
			return err
		}
		glob := strings.Join(words, "")
		if _, err := path.Match(glob, ""); err != nil {
			return UsageError(fmt.Sprintf("a GLOB has *, ? and [a-z], and %q is none", glob))
		}
		ctx := command.Context()
		show := func() error { return showStatus(ctx, c, daemon, glob, *asJSON) }
		for err = show(); err == nil && *watched; {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(watchEvery):
			}
			if gone := show(); gone != nil && ctx.Err() == nil {
				_, err = fmt.Fprintf(c.Stderr, "not live: %s\n", PrintableLines(gone.Error()))
			}
		}
		return err
	}
	return command
}

// showStatus prints the targets that match a glob; "" = all.
func showStatus(ctx context.Context, c *Console, daemon *Client, glob string, asJSON bool) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	got, err := daemon.ask(ctx, http.MethodGet, "/status.json", nil, nil)
	if err != nil {
		return err
	}
	if asJSON && glob == "" {
		return c.Print(string(got.body))
	}
	d := new(status.Document)
	if err := json.Unmarshal(got.body, d); err != nil {
		return fmt.Errorf("reading the daemon's answer: %w", err)
	}
	d.Targets = slices.DeleteFunc(status.ProblemsFirst(d.Targets), func(t status.Target) bool {
		named, _ := path.Match(glob, t.Name)
		return glob != "" && !named
	})
	switch {
	case !asJSON && len(d.Targets) == 0 && glob != "":
		return c.Print("no target matches; poold status lists all of them")
	case !asJSON && len(d.Targets) == 1 && glob != "":
		return c.Print(targetText(d, &d.Targets[0]))
	case !asJSON:
		return c.Print(statusText(d))
	}
	text, err := json.Marshal(d)
	return errors.Join(err, c.Print(string(text)))
}

// statusText formats the status: problems, tables of providers, replicas and targets, and the state of the daemon.
func statusText(d *status.Document) string {
	var text strings.Builder
	say := func(line string) { text.WriteString(Printable(line) + "\n") }
	say("as of " + d.AsOf)
	if !d.Config.OK && len(d.Config.Problems) > 0 {
		say("since " + d.Config.RefusedAt + " the configuration file is refused; the last good one, of " + d.Config.LoadedAt +
			", is in use:")
	}
	for _, line := range slices.Concat(d.Config.Problems, d.Alarms, d.Notices) {
		say(line)
	}
	providers := objects(d.Providers)
	text.WriteString("\n" + table(providers, "PROVIDER=name", "state", "ORDERS=in_flight", "concurrency", "balance",
		"callbacks"))
	var types []any // compares the providers
	for i, p := range d.Providers {
		if p.Reason != "" {
			text.WriteString(summed(p.State, "reason", "since", "retry_at", "remedy")(p.Name, providers[i].(map[string]any)) +
				"\n")
		}
		for _, x := range objects(p.Types) {
			x.(map[string]any)["provider"] = p.Name
			types = append(types, x)
		}
	}
	if len(types) > 0 {
		text.WriteString("\n" + table(types, "provider", "type", "share", "solved", "accepted", "LEAD S=lead_p50_s", "cost"))
	}
	if len(d.Replicas) > 0 {
		text.WriteString("\n" + table(objects(d.Replicas), "REPLICA=id", "version", "SINCE=started_at", "address"))
	}
	text.WriteString("\n" + targetTable(d))
	text.WriteString("\n" + stateText(d))
	if budgets := slices.Concat(d.Budgets, d.TargetBudgets()); len(budgets) > 0 {
		text.WriteString("\n" + table(objects(budgets), "BUDGET=scope", "window", "used", "limit"))
	}
	return text.String()
}

// stateText returns a line about the state of each part of the daemon.
func stateText(d *status.Document) string {
	lines, not := []string(nil), map[bool]string{false: "not "}
	say := func(name, text, reason string) {
		lines = append(lines, name+"\t"+Printable(strings.TrimSuffix(text+": "+reason, ": ")))
	}
	money := strings.TrimSuffix("; money in "+string(d.Currency), "; money in ")
	say("poold", fmt.Sprintf("%s, %sready, %d dead letters%s", d.Version, not[d.Ready], d.DeadLetters, money), "")
	say("redis", d.Redis.Mode+", "+not[d.Redis.OK]+"ok", d.Redis.Reason)
	if h := d.History; h != nil {
		why := map[bool]string{true: h.Reason, false: "its rows come by Redis"}[d.Redis.OK]
		dropped := h.Dropped + h.Unrecorded
		say("history", fmt.Sprintf("%sok; rows waiting %d, dropped %d", not[h.OK && d.Redis.OK], h.Waiting, dropped), why)
	}
	for _, use := range (&status.Windows{Day: d.Budget}).Uses("") {
		say("budget", use.Text(d.Currency), "")
	}
	if s := d.Solve; s != nil && s.Used() {
		say("/solve", fmt.Sprintf("%d in flight, %d waiting, %d requests, %d bought, %d solved, %d failed, spent %v",
			s.InFlight, s.Waiting, s.Requests, s.Bought, s.Solved, s.Failed, priced(s.Spent)), s.Reason)
	}
	if s := d.Savings; s != nil && s.Requests > 0 {
		say("savings", fmt.Sprintf("%d requests, %d saved (%v%%), %d missed, %d denied", s.Requests, s.Saved, s.SavedPct,
			s.Missed, s.Denied), s.Reason)
	}
	return align(lines)
}

// objects converts structs to the objects of their JSON.
func objects(list any) (objects []any) {
	text, _ := json.Marshal(list) // the values came as JSON
	objects, _ = decode[[]any](text)
	return objects
}

// targetTable returns a table with a row for each target, followed by a line for each target with a reason, a mark or a
// limit.
func targetTable(d *status.Document) string {
	if len(d.Targets) == 0 {
		return "no target matches\n"
	}
	rows, causes := []any{}, ""
	for i := range d.Targets {
		t, row := &d.Targets[i], targetRow(d, &d.Targets[i])
		rows = append(rows, row)
		if t.Reason != "" || len(t.Marks) > 0 || t.LimitedBy != "" {
			causes += summed(stateLine(t), "marks", "limited_by")("", row) + "\n"
		}
	}
	return table(rows, "TARGET=name", "state", "fresh", "want", "warm", "ORDERS=in_flight", "waiting", "hit_rate",
		"REQUESTS=takes", "LEAD=median", "SPENT=today") + causes
}

// targetRow returns the JSON object of a target with texts for the hit rate of the last hour, lead times and spend.
func targetRow(d *status.Document, t *status.Target) map[string]any {
	row := objects([]*status.Target{t})[0].(map[string]any)
	row["today"], row["in_all"], row["currency"] = priced(t.Today(d.AsOf)), priced(t.Spent), d.Currency
	row["ready"], row["wanted"], row["takes"] = t.Fresh, t.Want, t.Hour.Requests
	if t.LimitedBy == t.State {
		row["limited_by"] = "" // paused by a pause
	}
	if row["hit_rate"] = ""; t.Hour.Hits+t.Hour.Waited+t.Hour.Missed > 0 {
		row["hit_rate"] = fmt.Sprintf("%.0f%%", 100*t.Hour.HitRate)
	}
	row["median"], row["90_%_within"] = lead(t.LeadTime.P50), lead(t.LeadTime.P90)
	return row
}

// targetText formats a target for an operator: first its state and the cause, then one line for each subject, such as
// stock or spend.
func targetText(d *status.Document, t *status.Target) string {
	row, lines := targetRow(d, t), []string(nil)
	for _, names := range [][]string{
		{"when", "since", "retry_at"},
		{"warnings", "marks", "failed_in_a_row", "limited_by"},
		{"tokens", "ready", "wanted", "in_flight", "waiting"},
		{"last hour", "takes", "hit_rate"},
		{"takes", "requests", "hits", "waited", "missed"},
		{"orders", "bought", "solved", "failed", "lost", "expired", "accepted", "rejected"},
		{"spent", "today", "in_all", "currency"},
		{"lead time", "median", "90_%_within"},
	} {
		if line, _ := strings.CutPrefix(summed("", names[1:]...)("", row), "; "); line != "" {
			lines = append(lines, names[0]+"\t"+line)
		}
	}
	if t.Budget != nil {
		for _, u := range t.Budget.Uses("") {
			lines = append(lines, "budget\t"+Printable(u.Text(d.Currency)))
		}
	}
	for _, p := range d.Providers {
		lines = append(lines, "provider\t"+Printable(strings.TrimSuffix(p.Name+" is "+p.State+": "+p.Reason, ": ")))
	}
	for _, f := range t.LastFailures {
		lines = append(lines, "failed\t"+Printable(f.At+" "+f.Reason))
	}
	return Printable(stateLine(t)) + "\n" + align(lines)
}

// stateLine says in which state a target is, and why.
func stateLine(t *status.Target) string {
	line := strings.TrimSuffix(t.Name+": "+t.State+": "+t.Reason, ": ")
	return strings.NewReplacer(": budget: ", ": ", ": ok: nothing ", ": ok, but nothing ").Replace(line)
}

// priced returns an amount of money, or a word for an unknown amount.
func priced(amount status.Amount) any {
	if amount < 0 {
		return "no price, set price_per_1000"
	}
	return json.Number(amount.String())
}

// lead formats a lead time in seconds; "" = unknown.
func lead(seconds float64) string {
	if seconds == 0 {
		return ""
	}
	return time.Duration(seconds * float64(time.Second)).Round(100 * time.Millisecond).String()
}
