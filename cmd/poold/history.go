package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"poold/internal/httpapi"
)

// historyTime is the most that an answer about the history may take; the daemon gives
// its store less.
const historyTime = 15 * time.Second

// historyView is one of the words behind `poold history`.
type historyView struct {
	most, least int      // arguments
	query       []string // flags that become parameters of its route
	needs       string   // the one of them that must be there, with its values; "" = none
	path        func(args []string) string
	show        func(w io.Writer, body []byte) error // as a table for people
}

var historyViews = map[string]historyView{
	"site": {
		most: 1, least: 1, query: []string{"from", "to", "limit", "cursor"},
		path: func(args []string) string { return "/site/" + url.PathEscape(args[0]) }, show: shown(writeRecords),
	},
	"day": {
		most: 1,
		path: func(args []string) string {
			return "/day/" + url.PathEscape(append(args, time.Now().UTC().Format(time.DateOnly))[0])
		},
		show: shown(writeDay),
	},
	"tasks": {
		query: []string{"status", "from", "to", "limit", "cursor"}, needs: "status solved, error or polling",
		path: func([]string) string { return "/tasks" }, show: writeTasks,
	},
	"active": {
		query: []string{"from", "to", "limit", "cursor"},
		path:  func([]string) string { return "/active" }, show: shown(writeActive),
	},
	"solve": {
		most: 1, least: 1,
		path: func(args []string) string { return "/solve/" + url.PathEscape(args[0]) }, show: shown(writeSolve),
	},
	"usage": {
		query: []string{"by", "from", "to", "since", "per-day"}, needs: "by owner, target or key",
		path: func([]string) string { return "/usage" }, show: writeUsage,
	},
	"key": {
		most: 1, least: 1, query: []string{"from", "to", "limit", "cursor"},
		path: func(args []string) string { return "/key/" + url.PathEscape(args[0]) }, show: shown(writeEntries),
	},
}

// readHistory prints how orders ended, which are under way, or what keys did, as a running
// daemon knows.
func readHistory(ctx context.Context, c *command) error {
	if len(c.args) > 0 && c.args[0] == "init" {
		return initHistory(ctx, c)
	}
	flags := newFlags(c)
	connect := clientFlags(flags, c)
	asJSON := flags.Bool("json", false, "print the daemon's answer itself")
	asCSV := flags.Bool("csv", false, "print it as CSV")
	given := historyParameters(flags)
	c.word = "site SITEKEY|day [DATE]|tasks --status STATUS|active|solve ID|key NAME|usage --by owner|target|key|init"
	words, err := c.parse(flags, 2)
	if err != nil {
		return err
	}
	view, known := historyView{}, false
	if len(words) > 0 {
		view, known = historyViews[words[0]]
	}
	switch {
	case !known:
		return usageError{"needs one of " + c.word}
	case len(words)-1 < view.least || len(words)-1 > view.most:
		return usageError{fmt.Sprintf("%s takes %d to %d words behind it: %s", words[0], view.least, view.most, c.word)}
	case *asJSON && *asCSV:
		return usageError{"--json or --csv, not both"}
	}
	parameters, err := view.parameters(words[0], flags, given)
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
	header, body, err := daemon.exchange(ctx, http.MethodGet, "/history"+view.path(words[1:])+parameters, http.Header{"Accept": {accept}}, nil, historyTime)
	if err != nil {
		return err
	}
	switch {
	case *asCSV:
		err = c.tellMore(header)
		fallthrough
	case *asJSON:
		if err == nil {
			_, err = c.stdout.Write(body)
		}
		return err
	}
	if err := view.show(c.stdout, body); err != nil {
		return fmt.Errorf("reading the daemon's answer: %w", err)
	}
	return nil
}

// parameterFlags are the names of the flags that historyParameters adds.
var parameterFlags = []string{"status", "from", "to", "limit", "cursor", "by", "since", "per-day"}

// historyParameters adds the flags that become parameters, and returns those that were
// given.
func historyParameters(flags *flag.FlagSet) url.Values {
	given := url.Values{}
	for name, usage := range map[string]string{
		"status": "of tasks: solved, error or polling",
		"from":   "`time`, or day, from which on orders ended (active: were placed; key: tokens were taken)",
		"to":     "`time`, or day, before which they did",
		"limit":  "at most so many, 1 to 1000; default 50",
		"cursor": "go on behind an answer that had more",
		"by":     "of usage: owner, target or key",
	} {
		flags.Func(name, usage, func(value string) error {
			given.Set(name, value)
			return nil
		})
	}
	flags.Func("since", "instead of --from: so many `days` with today, as 7d", func(value string) error {
		text, whole := strings.CutSuffix(value, "d")
		days, err := strconv.ParseUint(text, 10, 16)
		if err != nil || !whole || days == 0 {
			return errors.New("must be days, as 7d")
		}
		given.Set("from", time.Now().UTC().AddDate(0, 0, 1-int(days)).Format(time.DateOnly))
		return nil
	})
	flags.BoolFunc("per-day", "of usage: a line for each day", func(value string) error {
		each, err := strconv.ParseBool(value)
		if given.Del("per"); each {
			given.Set("per", "day")
		}
		return err
	})
	return given
}

// parameters are those that were given, as the end of an address. A flag that the view
// does not have is a mistake.
func (v historyView) parameters(word string, flags *flag.FlagSet, given url.Values) (string, error) {
	for _, name := range parameterFlags {
		if isSet(flags, name) && !slices.Contains(v.query, name) {
			return "", usageError{fmt.Sprintf("%s has no --%s", word, name)}
		}
	}
	needed, _, _ := strings.Cut(v.needs, " ")
	switch {
	case needed != "" && !given.Has(needed):
		return "", usageError{fmt.Sprintf("%s needs --%s", word, v.needs)}
	case isSet(flags, "since") && isSet(flags, "from"):
		return "", usageError{"--since or --from, not both"}
	case len(given) == 0:
		return "", nil
	}
	return "?" + given.Encode(), nil
}

// tellMore says on stderr how to go on where an answer has more pages: CSV has no place
// for it.
func (c *command) tellMore(header http.Header) error {
	link, _, _ := strings.Cut(strings.TrimPrefix(header.Get("Link"), "<?"), ">")
	query, err := url.ParseQuery(link)
	if err != nil || !query.Has("cursor") {
		return nil //nolint:nilerr // who sends another Link means something else by it
	}
	_, err = io.WriteString(c.stderr, more(query.Get("cursor")))
	return err
}

// more says how to go on.
func more(cursor string) string {
	if cursor == "" {
		return ""
	}
	return "there are more: add --cursor " + plain(cursor) + "\n"
}

// shown makes a view of a function that writes a document.
func shown[T any](write func(w *tabwriter.Writer, document *T) (end string)) func(io.Writer, []byte) error {
	return func(w io.Writer, body []byte) error {
		document := new(T)
		if err := json.Unmarshal(body, document); err != nil {
			return err
		}
		var text strings.Builder
		table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
		end := write(table, document)
		if err := table.Flush(); err != nil {
			return err
		}
		_, err := io.WriteString(w, text.String()+end)
		return err
	}
}

// writeTasks shows either list: those under way have a state.
func writeTasks(w io.Writer, body []byte) error {
	var list struct {
		Records []struct{ Status string }
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return err
	}
	if len(list.Records) > 0 && list.Records[0].Status == "polling" {
		return shown(writeActive)(w, body)
	}
	return shown(writeRecords)(w, body)
}

// cells writes one line of a table; words that others chose are made harmless.
func cells(table *tabwriter.Writer, of ...any) {
	for i, cell := range of {
		separator := "\t"
		if i == len(of)-1 {
			separator = "\n"
		}
		text, chosen := cell.(string)
		if !chosen {
			text = fmt.Sprint(cell)
		}
		_, _ = io.WriteString(table, plain(text)+separator) // into memory
	}
}

func seconds(ms int64) string { return fmt.Sprintf("%.1f", float64(ms)/1000) }

func price(of float64) string { return known(of > 0, "%.6g", of) }

func writeRecords(table *tabwriter.Writer, list *httpapi.HistoryList) string {
	if len(list.Records) == 0 {
		return "there are no records\n"
	}
	cells(table, "ENDED", "TARGET", "TYPE", "HOW", "CODE", "SECONDS", "POLLS", "BY", "PROVIDER", "TASK", "PRICE", "ORDER")
	for i := range list.Records {
		r := &list.Records[i]
		cells(table, r.EndedAt, r.Target, r.Type, r.How, r.Code, seconds(r.ElapsedMS), r.Polls, r.By, r.Provider, r.Task, price(r.Price), r.ID)
	}
	return more(list.Next)
}

func writeActive(table *tabwriter.Writer, list *httpapi.ActiveList) string {
	if len(list.Records) == 0 {
		return "nothing is under way\n"
	}
	cells(table, "PLACED", "TARGET", "TYPE", "STATE", "SECONDS", "PROVIDER", "TASK", "PRICE", "ORDER")
	for i := range list.Records {
		r := &list.Records[i]
		cells(table, r.PlacedAt, r.Target, r.Type, r.State, seconds(r.ElapsedMS), r.Provider, r.Task, price(r.Price), r.ID)
	}
	return more(list.Next)
}

// figureColumns are the names of what figureCells returns.
var figureColumns = []any{"ORDERS", "SOLVED", "DISCARDED", "FAILED", "REFUSED", "LOST", "MEAN SECONDS", "SPENT"}

func figureCells(f *httpapi.DayFigures) []any {
	tokens := f.Solved + f.Discarded
	mean := known(tokens > 0, "%.1f", float64(f.TotalElapsedMS)/1000/float64(max(tokens, 1)))
	return []any{f.Orders, f.Solved, f.Discarded, f.Failed, f.Refused, f.Lost, mean, price(f.Spent)}
}

// orUnknown shows a number that may be unknown.
func orUnknown(n *int64) string {
	if n == nil {
		return "-"
	}
	return strconv.FormatInt(*n, 10)
}

func writeDay(table *tabwriter.Writer, day *httpapi.HistoryDay) string {
	if len(day.Types)+len(day.Targets) == 0 {
		return "nothing is known to have ended on " + plain(day.Date) + " (UTC)\n"
	}
	cells(table, append([]any{"TARGET", "OWNER"}, figureColumns...)...)
	for i := range day.Targets {
		cells(table, append([]any{day.Targets[i].Target, day.Targets[i].Owner}, figureCells(&day.Targets[i].DayFigures)...)...)
	}
	if len(day.Types) > 0 {
		_, _ = io.WriteString(table, "\n")
		cells(table, append([]any{"TYPE", "OWNER"}, figureColumns...)...)
	}
	for i := range day.Types {
		cells(table, append([]any{day.Types[i].Type, ""}, figureCells(&day.Types[i].DayFigures)...)...)
	}
	return ""
}

// writeUsage shows either answer: that by key has lines of its own.
func writeUsage(w io.Writer, body []byte) error {
	var usage struct{ By string }
	if err := json.Unmarshal(body, &usage); err != nil {
		return err
	}
	if usage.By == "key" {
		return shown(writeKeyUsage)(w, body)
	}
	return shown(writeSpent)(w, body)
}

func writeSpent(table *tabwriter.Writer, usage *httpapi.HistoryUsage) string {
	if len(usage.Lines) == 0 {
		return fmt.Sprintf("nothing is known to have ended from %s to %s (UTC)\n", plain(usage.First), plain(usage.Last))
	}
	cells(table, append(append([]any{"DATE", "TARGET", "OWNER"}, figureColumns...), "HANDED OUT", "EXPIRED")...)
	for i := range usage.Lines {
		l := &usage.Lines[i]
		row := append([]any{l.Date, l.Target, l.Owner}, figureCells(&l.DayFigures)...)
		cells(table, append(row, orUnknown(l.HandedOut), orUnknown(l.Expired))...)
	}
	return ""
}

func writeSolve(table *tabwriter.Writer, r *httpapi.HistoryRecord) string {
	for _, line := range [][2]any{
		{"order", r.ID}, {"target", r.Target}, {"owner", r.Owner}, {"type", r.Type}, {"sitekey", r.Sitekey}, {"pageurl", r.Pageurl},
		{"provider", r.Provider}, {"task", r.Task}, {"status", r.Status}, {"how", r.How}, {"code", r.Code}, {"placed", r.PlacedAt},
		{"submitted", r.SubmittedAt}, {"solved", r.SolvedAt}, {"ended", r.EndedAt}, {"seconds", seconds(r.ElapsedMS)}, {"polls", r.Polls},
		{"by", r.By}, {"price", price(r.Price)},
	} {
		cells(table, line[0], line[1])
	}
	return ""
}
