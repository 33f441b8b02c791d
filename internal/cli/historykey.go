package cli

import (
	"fmt"
	"text/tabwriter"

	"poold/internal/httpapi/historyapi"
)

func writeEntries(table *tabwriter.Writer, list *historyapi.AuditList) string {
	if len(list.Entries) == 0 {
		return "there are no entries of this key\n"
	}
	cells(table, "AT", "ACTION", "TARGET", "SOURCE", "PRICE", "TOKEN", "IMAGE")
	for i := range list.Entries {
		e := &list.Entries[i]
		cells(table, e.At, e.Action, e.Target, e.Source, price(e.Price), e.TokenID, e.Image)
	}
	return more(list.Next)
}

func writeKeyUsage(table *tabwriter.Writer, usage *historyapi.KeyUsage) string {
	if len(usage.Lines) == 0 {
		return fmt.Sprintf("no key is known to have taken or reported anything from %s to %s (UTC)\n", plain(usage.First), plain(usage.Last))
	}
	cells(table, "DATE", "KEY", "HANDED OUT", "ACCEPTED", "REJECTED", "BOUGHT", "SPENT")
	for i := range usage.Lines {
		l := &usage.Lines[i]
		cells(table, l.Date, l.Key, l.HandedOut, l.Accepted, l.Rejected, l.Bought, price(l.Spent))
	}
	return ""
}
