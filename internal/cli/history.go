package cli

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// historyTime is the timeout for a request about the history. historyTime is longer than the
// daemon's own timeout for its store.
const historyTime = 15 * time.Second

// historyView describes a subcommand of `poold history` that sends a request to the daemon.
type historyView struct {
	use, short, example string
	args                cobra.PositionalArgs
	query               []string // names of the flags that become query parameters
	needs               string   // the required flag and its values; "" = no flag is required
	path                func(words []string) string
	single              bool // the answer is one record
}

func historyViews() []historyView {
	paged := []string{"from", "to", "limit", "cursor"}
	only := func(path string) func([]string) string { return func([]string) string { return path } }
	named := func(path string) func([]string) string {
		return func(words []string) string { return path + url.PathEscape(words[0]) }
	}
	return []historyView{
		{
			use: "site SITEKEY", short: "list the orders of a site key, newest first", example: "6LeIxAcTAAAAAJcZVRqyHh71UMIEGNQ_MXjiZKhI --limit 2",
			args: Words(0, "a site key"), query: paged, path: named("/site/"),
		},
		{
			use: "day [DATE]", short: "show the figures of a day, by default today (UTC)", example: "2026-01-02",
			args: Words(1),
			path: func(words []string) string {
				return "/day/" + url.PathEscape(append(words, time.Now().UTC().Format(time.DateOnly))[0])
			},
		},
		{
			use: "tasks --status STATUS", short: "list orders by the status of their tasks", example: "--status error --target staging-login",
			args: Words(0), query: append([]string{"status", "target"}, paged...), needs: "status solved, error or polling",
			path: only("/tasks"),
		},
		{
			use: "active", short: "list the orders in flight", args: Words(0), query: paged, path: only("/active"),
		},
		{
			use: "solve ID|TASK", short: "show one order, by its id or by the service's id of its task", example: "73105422",
			args: Words(0, "the id of an order or of its task"), path: named("/solve/"), single: true,
		},
		{
			use: "usage --by owner|target|key", short: "show the spend by owner, target or key", example: "--by owner --since 7d --csv",
			args: Words(0), query: []string{"by", "from", "to", "since", "per-day"}, needs: "by owner, target or key",
			path: only("/usage"),
		},
		{
			use: "key NAME", short: "list the tokens that a key took, and its reports (scope admin)", example: "nightly-tests --limit 2",
			args: Words(0, "the name of a key"), query: paged, path: named("/key/"),
		},
	}
}

func newHistory(c *Console, prepare *cobra.Command) *cobra.Command {
	command := &cobra.Command{
		Use:   "history COMMAND",
		Short: "show ended orders, orders in flight, the audit and the spend",
		Long:  "Shows the ended orders, orders in flight, spend and audit of a running daemon.",
	}
	of := []*cobra.Command{prepare}
	for _, view := range historyViews() {
		of = append(of, view.command(c))
	}
	addCommands(command, of...)
	return command
}

func (v historyView) command(c *Console) *cobra.Command {
	command := &cobra.Command{Use: v.use, Short: v.short, Args: v.args}
	command.Example = strings.TrimRight("  poold history "+command.Name()+" "+v.example, " ")
	flags := command.Flags()
	asJSON := flags.Bool("json", false, "print the answer as JSON")
	asCSV := flags.Bool("csv", false, "print the answer as CSV")
	given := historyParameters(command, v.query)
	onDaemon(command, c, func(ctx context.Context, daemon *Client, words []string) error {
		if *asJSON && *asCSV {
			return UsageError("--json or --csv, not both")
		}
		parameters, err := v.parameters(flags, given)
		if err != nil {
			return err
		}
		accept := "text/csv"
		if *asJSON {
			accept = "application/json"
		}
		header, body, err := daemon.exchange(ctx, apiRequest{
			method: http.MethodGet, path: "/history" + v.path(words) + parameters, header: http.Header{"Accept": {accept}}, limit: historyTime,
		})
		if err != nil {
			return err
		}
		text, more := string(body), nextPage(header)
		switch {
		case *asCSV:
			if _, err := io.WriteString(c.Stderr, more); err != nil {
				return err
			}
		case !*asJSON:
			if text, err = historyTable(header, body, v.single); err != nil {
				return err
			}
			text += more
		}
		return c.printRaw(text)
	})
	return command
}

// historyFlags lists the flags whose values become query parameters unchanged. Each flag has a help
// text and the values for shell completion.
var historyFlags = map[string]struct {
	help   string
	values []string
}{
	"status": {"`status` of the tasks: solved, error or polling", []string{"solved", "error", "polling"}},
	"target": {"only the orders of the target with this `name`", nil},
	"from":   {"`time` or day at which the range begins", nil},
	"to":     {"`time` or day at which the range ends", nil},
	"limit":  {"show at most `N` entries, 1 to 1000 (default 50)", nil},
	"cursor": {"continue after an answer that had more, from its `cursor`", nil},
	"by":     {"`what` each line sums up: owner, target or key", []string{"owner", "target", "key"}},
}

// historyParameters adds the named flags to a command. When the command line is parsed, their
// values are stored in the returned query parameters.
func historyParameters(command *cobra.Command, names []string) url.Values {
	flags, given := command.Flags(), url.Values{}
	for _, name := range names {
		switch name {
		case "since":
			flags.Func(name, "instead of --from: the last `days` including today, such as 7d", func(value string) error {
				text, whole := strings.CutSuffix(value, "d")
				days, err := strconv.ParseUint(text, 10, 16)
				if err != nil || !whole || days == 0 {
					return errors.New("must be days, such as 7d")
				}
				given.Set("from", time.Now().UTC().AddDate(0, 0, 1-int(days)).Format(time.DateOnly))
				return nil
			})
		case "per-day":
			flags.BoolFunc(name, "print one line for each day", func(value string) error {
				each, err := strconv.ParseBool(value)
				if given.Del("per"); each {
					given.Set("per", "day")
				}
				return err
			})
		default:
			flags.Func(name, historyFlags[name].help, func(value string) error {
				given.Set(name, value)
				return nil
			})
			if values := historyFlags[name].values; values != nil {
				OneOf(command, name, values...)
			}
		}
	}
	return given
}

// parameters returns the query string of the request, or a usage error if a required flag is
// missing.
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

// nextPage returns a line with the flag for the next page, or "" after the last page. With CSV, the
// line goes to stderr, because CSV has no place for a cursor.
func nextPage(header http.Header) string {
	link, _, _ := strings.Cut(strings.TrimPrefix(header.Get("Link"), "<?"), ">")
	query, err := url.ParseQuery(link)
	if err != nil || !query.Has("cursor") {
		return "" // a Link header without a cursor comes from a proxy
	}
	return "there are more: add --cursor " + escapeWord(query.Get("cursor")) + "\n"
}
