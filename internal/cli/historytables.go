package cli

import (
	"fmt"
	"strconv"

	"poold/internal/httpapi/historyapi"
	"poold/internal/targets"
)

// taskTable formats a list of ended orders or a list of orders in flight. Orders in flight have a
// state instead of an outcome.
func taskTable(answer []byte) (string, error) {
	list, err := decode[struct {
		Records []struct{ Status string }
	}](answer)
	if err != nil {
		return "", err
	}
	if len(list.Records) > 0 && list.Records[0].Status == "polling" {
		return formatWith(activeTable)(answer)
	}
	return formatWith(recordsTable)(answer)
}

func recordsTable(list *historyapi.List) string {
	if len(list.Records) == 0 {
		return "there are no records\n"
	}
	t := &table{}
	t.plainRow("ENDED", "TARGET", "TYPE", "HOW", "CODE", "SECONDS", "POLLS", "BY", "PROVIDER", "TASK", "PRICE", "ORDER")
	for i := range list.Records {
		r := &list.Records[i]
		t.plainRow(r.EndedAt, r.Target, r.Type, r.How, r.Code, seconds(r.ElapsedMS), r.Polls, r.By, r.Provider, r.Task, price(list.Currency, r.Price), r.ID)
	}
	return t.text(0) + nextPageLine(list.Next)
}

func activeTable(list *historyapi.ActiveList) string {
	if len(list.Records) == 0 {
		return "no orders are in flight\n"
	}
	t := &table{}
	t.plainRow("PLACED", "TARGET", "TYPE", "STATE", "SECONDS", "PROVIDER", "TASK", "PRICE", "ORDER")
	for i := range list.Records {
		r := &list.Records[i]
		t.plainRow(r.PlacedAt, r.Target, r.Type, r.State, seconds(r.ElapsedMS), r.Provider, r.Task, price(list.Currency, r.Price), r.ID)
	}
	return t.text(0) + nextPageLine(list.Next)
}

func solveTable(r *historyapi.Solve) string {
	t := &table{}
	for _, line := range [][2]any{
		{"order", r.ID}, {"target", r.Target}, {"owner", r.Owner}, {"type", r.Type}, {"sitekey", r.Sitekey}, {"pageurl", r.Pageurl},
		{"provider", r.Provider}, {"choice", r.Choice}, {"task", r.Task}, {"status", r.Status}, {"how", r.How}, {"code", r.Code}, {"placed", r.PlacedAt},
		{"submitted", r.SubmittedAt}, {"solved", r.SolvedAt}, {"ended", r.EndedAt}, {"seconds", seconds(r.ElapsedMS)}, {"polls", r.Polls},
		{"by", r.By}, {"price", price(r.Currency, r.Price)},
	} {
		t.plainRow(line[:]...)
	}
	return t.text(0)
}

func entriesTable(list *historyapi.AuditList) string {
	if len(list.Entries) == 0 {
		return "there are no entries of this key\n"
	}
	t := &table{}
	t.plainRow("AT", "ACTION", "TARGET", "SOURCE", "PRICE", "TOKEN", "IMAGE")
	for i := range list.Entries {
		e := &list.Entries[i]
		t.plainRow(e.At, e.Action, e.Target, e.Source, price(list.Currency, e.Price), e.TokenID, e.Image)
	}
	return t.text(0) + nextPageLine(list.Next)
}

// figureColumns contains the headings of the cells that figureCells returns.
var figureColumns = []any{"ORDERS", "SOLVED", "DISCARDED", "FAILED", "REFUSED", "LOST", "MEAN SECONDS", "SPENT"}

func figureCells(f *historyapi.DayFigures, currency targets.Currency) []any {
	tokens := f.Solved + f.Discarded
	mean := formatKnown(tokens > 0, "%.1f", float64(f.TotalElapsedMS)/1000/float64(max(tokens, 1)))
	return []any{f.Orders, f.Solved, f.Discarded, f.Failed, f.Refused, f.Lost, mean, sum(currency, f.Spent, f.Unpriced)}
}

func dayTable(day *historyapi.Day) string {
	if len(day.Types)+len(day.Targets) == 0 {
		return "no known order ended on " + escapeWord(day.Date) + " (UTC)\n"
	}
	t := &table{}
	t.plainRow(append([]any{"TARGET", "OWNER"}, figureColumns...)...)
	for i := range day.Targets {
		t.plainRow(append([]any{day.Targets[i].Target, day.Targets[i].Owner}, figureCells(&day.Targets[i].DayFigures, day.Currency)...)...)
	}
	if len(day.Types) == 0 {
		return t.text(0)
	}
	types := &table{}
	types.plainRow(append([]any{"TYPE", "OWNER"}, figureColumns...)...)
	for i := range day.Types {
		types.plainRow(append([]any{day.Types[i].Type, ""}, figureCells(&day.Types[i].DayFigures, day.Currency)...)...)
	}
	return t.text(0) + "\n" + types.text(0)
}

// usageTable formats the response of `poold history usage`. The usage by key has other columns than
// the usage by target.
func usageTable(answer []byte) (string, error) {
	usage, err := decode[struct{ By string }](answer)
	if err != nil {
		return "", err
	}
	if usage.By == "key" {
		return formatWith(keyUsageTable)(answer)
	}
	return formatWith(spentTable)(answer)
}

func keyUsageTable(usage *historyapi.KeyUsage) string {
	if len(usage.Lines) == 0 {
		return fmt.Sprintf("no key took or reported a token from %s to %s (UTC)\n", escapeWord(usage.First), escapeWord(usage.Last))
	}
	t := &table{}
	t.plainRow("DATE", "KEY", "HANDED OUT", "ACCEPTED", "REJECTED", "BOUGHT", "SPENT")
	for i := range usage.Lines {
		l := &usage.Lines[i]
		t.plainRow(l.Date, l.Key, l.HandedOut, l.Accepted, l.Rejected, l.Bought, sum(usage.Currency, l.Spent, l.Unpriced))
	}
	return t.text(0)
}

func spentTable(usage *historyapi.Usage) string {
	if len(usage.Lines) == 0 {
		return fmt.Sprintf("no known order ended from %s to %s (UTC)\n", escapeWord(usage.First), escapeWord(usage.Last))
	}
	t := &table{}
	t.plainRow(append(append([]any{"DATE", "TARGET", "OWNER"}, figureColumns...), "HANDED OUT", "EXPIRED")...)
	for i := range usage.Lines {
		l := &usage.Lines[i]
		row := append([]any{l.Date, l.Target, l.Owner}, figureCells(&l.DayFigures, usage.Currency)...)
		t.plainRow(append(row, orUnknown(l.HandedOut), orUnknown(l.Expired))...)
	}
	return t.text(0)
}

// orUnknown formats a number; nil becomes "-".
func orUnknown(n *int64) string {
	if n == nil {
		return "-"
	}
	return strconv.FormatInt(*n, 10)
}
