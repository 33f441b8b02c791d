package cli

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// HistoryTime is the most that an answer about the history may take; the daemon gives
// its store less.
const HistoryTime = 15 * time.Second

// historyView is one of the commands of `poold history` that ask the daemon.
type historyView struct {
	use, short, example string
	args                cobra.PositionalArgs
	query               []string // flags that become parameters of its route
	needs               string   // the one of them that must be there, with its values; "" = none
	path                func(words []string) string
	show                func(w io.Writer, body []byte) error // as a table for people
}

func historyViews() []historyView {
	paged := []string{"from", "to", "limit", "cursor"}
	only := func(path string) func([]string) string { return func([]string) string { return path } }
	named := func(path string) func([]string) string {
		return func(words []string) string { return path + url.PathEscape(words[0]) }
	}
	return []historyView{
		{
			use: "site SITEKEY", short: "the orders of a site key, the last one first", example: "6LeIxAcTAAAAAJcZVRqyHh71UMIEGNQ_MXjiZKhI --limit 2",
			args: Words(0, "a site key"), query: paged, path: named("/site/"), show: shown(writeRecords),
		},
		{
			use: "day [DATE]", short: "the figures of a day, which is today (UTC) unless it is named", example: "2026-01-02",
			args: Words(1), show: shown(writeDay),
			path: func(words []string) string {
				return "/day/" + url.PathEscape(append(words, time.Now().UTC().Format(time.DateOnly))[0])
			},
		},
		{
			use: "tasks --status STATUS", short: "the orders by their tasks' status", example: "--status error --from 2026-01-02",
			args: Words(0), query: append([]string{"status"}, paged...), needs: "status solved, error or polling",
			path: only("/tasks"), show: writeTasks,
		},
		{
			use: "active", short: "the orders that are under way now", args: Words(0), query: paged, path: only("/active"), show: shown(writeActive),
		},
		{
			use: "solve ID|TASK", short: "one order, by its id or by the service's id of its task", example: "73105422",
			args: Words(0, "the id of an order or of its task"), path: named("/solve/"), show: shown(writeSolve),
		},
		{
			use: "usage --by owner|target|key", short: "what was spent, by owner, by target or by key", example: "--by owner --since 7d --csv",
			args: Words(0), query: []string{"by", "from", "to", "since", "per-day"}, needs: "by owner, target or key",
			path: only("/usage"), show: writeUsage,
		},
		{
			use: "key NAME", short: "which tokens a key took, and how it reported them (scope admin)", example: "nightly-tests --limit 2",
			args: Words(0, "the name of a key"), query: paged, path: named("/key/"), show: shown(writeEntries),
		},
	}
}

// newHistory is `poold history`.
func newHistory(c *Console, prepare *cobra.Command) *cobra.Command {
	command := &cobra.Command{
		Use:   "history COMMAND",
		Short: "how orders ended, what is under way, who took what, what was spent",
		Long:  "Asks a running daemon how orders ended, which are under way, who took which token and what was spent.",
	}
	of := []*cobra.Command{prepare}
	for _, view := range historyViews() {
		of = append(of, view.command(c))
	}
	addCommands(command, of...)
	return command
}

// command is the view's command.
func (v historyView) command(c *Console) *cobra.Command {
	command := &cobra.Command{Use: v.use, Short: v.short, Args: v.args}
	command.Example = strings.TrimRight("  poold history "+command.Name()+" "+v.example, " ")
	flags := command.Flags()
	connect := ClientFlags(command, c)
	asJSON := flags.Bool("json", false, "print the daemon's answer itself")
	asCSV := flags.Bool("csv", false, "print it as CSV")
	given := historyParameters(command, v.query)
	command.RunE = func(command *cobra.Command, words []string) error {
		if *asJSON && *asCSV {
			return UsageError("--json or --csv, not both")
		}
		parameters, err := v.parameters(flags, given)
		if err != nil {
			return err
		}
		daemon, err := connect()
		if err != nil {
			return err
		}
		accept := "application/json"
		if *asCSV {
			accept = "text/csv"
		}
		header, body, err := daemon.exchange(command.Context(), question{
			method: http.MethodGet, path: "/history" + v.path(words) + parameters, header: http.Header{"Accept": {accept}}, limit: HistoryTime,
		})
		if err != nil {
			return err
		}
		if *asCSV {
			err = c.tellMore(header)
		}
		switch {
		case err != nil:
			return err
		case *asCSV, *asJSON:
			return c.printRaw(string(body))
		}
		if err := v.show(c.Stdout, body); err != nil {
			return fmt.Errorf("reading the daemon's answer: %w", err)
		}
		return nil
	}
	return command
}

// historyParameters adds the flags of some names that become parameters, and returns those
// that were given.
func historyParameters(command *cobra.Command, names []string) url.Values {
	flags, given := command.Flags(), url.Values{}
	for _, name := range names {
		take := func(value string) error {
			given.Set(name, value)
			return nil
		}
		switch name {
		case "status":
			flags.Func(name, "`status` of the tasks: solved, error or polling", take)
			OneOf(command, name, "solved", "error", "polling")
		case "from":
			flags.Func(name, "`time`, or day, from which on orders ended (active: were placed; key: tokens were taken)", take)
		case "to":
			flags.Func(name, "`time`, or day, before which they did", take)
		case "limit":
			flags.Func(name, "at most `N` of them, 1 to 1000 (default 50)", take)
		case "cursor":
			flags.Func(name, "go on behind an answer that had more, at its `cursor`", take)
		case "by":
			flags.Func(name, "`what` the lines are of: owner, target or key", take)
			OneOf(command, name, "owner", "target", "key")
		case "since":
			flags.Func(name, "instead of --from: so many `days` with today, as 7d", func(value string) error {
				text, whole := strings.CutSuffix(value, "d")
				days, err := strconv.ParseUint(text, 10, 16)
				if err != nil || !whole || days == 0 {
					return errors.New("must be days, as 7d")
				}
				given.Set("from", time.Now().UTC().AddDate(0, 0, 1-int(days)).Format(time.DateOnly))
				return nil
			})
		case "per-day":
			flags.BoolFunc(name, "a line for each day", func(value string) error {
				each, err := strconv.ParseBool(value)
				if given.Del("per"); each {
					given.Set("per", "day")
				}
				return err
			})
		}
	}
	return given
}

// parameters are those that were given, as the end of an address.
func (v historyView) parameters(flags *pflag.FlagSet, given url.Values) (string, error) {
	needed, _, _ := strings.Cut(v.needs, " ")
	switch {
	case needed != "" && !given.Has(needed):
		return "", UsageError("needs --" + v.needs)
	case flags.Changed("since") && flags.Changed("from"):
		return "", UsageError("--since or --from, not both")
	case len(given) == 0:
		return "", nil
	}
	return "?" + given.Encode(), nil
}

// tellMore says on stderr how to go on where an answer has more pages: CSV has no place
// for it.
func (c *Console) tellMore(header http.Header) error {
	link, _, _ := strings.Cut(strings.TrimPrefix(header.Get("Link"), "<?"), ">")
	query, err := url.ParseQuery(link)
	if err != nil || !query.Has("cursor") {
		return nil //nolint:nilerr // who sends another Link means something else by it
	}
	_, err = io.WriteString(c.Stderr, more(query.Get("cursor")))
	return err
}

// more says how to go on.
func more(cursor string) string {
	if cursor == "" {
		return ""
	}
	return "there are more: add --cursor " + plain(cursor) + "\n"
}
