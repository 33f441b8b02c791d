package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"poold/internal/httpapi/historyapi"
)

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

func writeRecords(table *tabwriter.Writer, list *historyapi.List) string {
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

func writeActive(table *tabwriter.Writer, list *historyapi.ActiveList) string {
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

func figureCells(f *historyapi.DayFigures) []any {
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

func writeDay(table *tabwriter.Writer, day *historyapi.Day) string {
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

func writeSpent(table *tabwriter.Writer, usage *historyapi.Usage) string {
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

func writeSolve(table *tabwriter.Writer, r *historyapi.Record) string {
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
