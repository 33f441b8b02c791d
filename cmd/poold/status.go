package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"poold/internal/refill"
	"poold/internal/status"
)

// used shows a budget, nothing where there is none.
func used(u *status.Usage, of string) string {
	if u == nil {
		return ""
	}
	return fmt.Sprintf("%d/%d %s", u.Used, u.Limit, of)
}

// usedOf shows the budgets of a target, or of all guests.
func usedOf(b status.Budget) string {
	return strings.Trim(used(b.Hour, "an hour")+", "+used(b.Day, "a day"), ", ")
}

// printStatus prints a running daemon's status as a table.
func printStatus(ctx context.Context, c *command) error {
	flags := newFlags(c)
	connect := clientFlags(flags, c)
	asJSON := flags.Bool("json", false, "print the document itself")
	if _, err := c.parse(flags, 0); err != nil {
		return err
	}
	daemon, err := connect()
	if err != nil {
		return err
	}
	body, err := daemon.ask(ctx, http.MethodGet, "/status.json", "application/json", 10*time.Second)
	if err != nil {
		return err
	}
	if *asJSON {
		_, err = c.stdout.Write(body)
		return err
	}
	var d status.Document
	if err := json.Unmarshal(body, &d); err != nil {
		return fmt.Errorf("reading the status: %w", err)
	}
	return writeStatus(c.stdout, &d)
}

// writeStatus writes what keeps the daemon from its work, then the tables of providers and
// targets, then what else is to be known.
func writeStatus(w io.Writer, d *status.Document) error {
	var text strings.Builder
	for _, alarm := range d.Alarms {
		text.WriteString(alarm + "\n\n")
	}
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	row := func(format string, args ...any) { _, _ = fmt.Fprintf(table, format, args...) } // into memory
	row("PROVIDER\tSTATE\tORDERS\tMOST\tCALLBACKS\n")
	for _, p := range d.Providers {
		row("%s\t%s\t%d\t%d\t%s\n", p.Name, withReason(p.State, p.Reason), p.InFlight, p.Concurrency, map[bool]string{true: "yes", false: "no"}[p.Callbacks])
	}
	row("\nTARGET\tSTATE\tFRESH\tDEPTH\tWANT\tREFILL\tORDERS\tUNKNOWN\tWAITING\tREQUESTS\tHIT RATE\tBOUGHT\tSOLVED\tEXPIRED\tFAILED\tLOST\tBOUGHT/SERVED\tSPENT\tBUDGET\n")
	for i := range d.Targets {
		t := &d.Targets[i]
		budget := "-"
		if t.Budget != nil {
			budget = usedOf(*t.Budget)
		}
		row("%s\t%s\t%d\t%d\t%s\t%s\t%d\t%d\t%d\t%d\t%s\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%s\n",
			t.Name, strings.Join(append([]string{t.State}, t.Marks...), ", "), t.Fresh, t.Depth,
			wanted(t.Want, t.Warm), t.Refill, t.InFlight, t.Unknown, t.Waiting,
			t.Requests, known(t.Hits+t.Waited+t.Misses > 0, "%.1f %%", 100*t.HitRate), t.Bought, t.Solved, t.Expired, t.Failed, t.Lost,
			known(t.BoughtPerServed > 0, "%.2f", t.BoughtPerServed), known(t.Spent > 0, "%.6g", t.Spent), budget)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	writeRemarks(&text, d.Targets)
	ready, redis := "ready", "answers"
	if !d.Ready {
		ready = "not ready"
	}
	if !d.Redis.OK {
		redis = "cannot be used"
	}
	fmt.Fprintf(&text, "\npoold %s, %s; redis (%s) %s\n", d.Version, ready, d.Redis.Mode, redis)
	if d.Redis.Reason != "" {
		fmt.Fprintf(&text, "%s\n", d.Redis.Reason)
	}
	if d.Budget != nil {
		fmt.Fprintf(&text, "overall budget: %s\n", used(d.Budget, "a day"))
	}
	writeOnDemand(&text, d)
	if d.DeadLetters > 0 {
		fmt.Fprintf(&text, "dead letters: %d (poold dead-letters list)\n", d.DeadLetters)
	}
	for _, line := range append(d.Notices, d.Config.Problems...) {
		text.WriteString(line + "\n")
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// writeOnDemand tells of on-demand solves and of what sharing saved, nothing where there
// were none.
func writeOnDemand(text *strings.Builder, d *status.Document) {
	if s := d.Solve; s != nil && s.Used() {
		fmt.Fprintf(text, "on-demand solves: guests %d, fresh %d, orders %d, waiting %d, requests %d, bought %d, solved %d, failed %d, spent %s; budget %s\n",
			s.Guests, s.Fresh, s.InFlight, s.Waiting, s.Requests, s.Bought, s.Solved, s.Failed, known(s.Spent > 0, "%.6g", s.Spent), usedOf(s.Budget))
		if s.Reason != "" {
			fmt.Fprintf(text, "on-demand solves: %s\n", s.Reason)
		}
	}
	if s := d.Dedup; s != nil && (s.Requests > 0 || s.Reason != "") {
		fmt.Fprintf(text, "savings: %d of %d requests in the last 7 days shared a solve (%.1f %%)\n", s.Shared, s.Requests, s.SavedPct)
		if s.Reason != "" {
			fmt.Fprintf(text, "savings: %s\n", s.Reason)
		}
	}
}

// writeRemarks tells of each target what the table has no room for: why it is as it
// is, what holds it back, what another way of refilling would have done, and what
// its hit rate needs.
func writeRemarks(text *strings.Builder, targets []status.Target) {
	for i := range targets {
		t := &targets[i]
		var lines []string
		if t.Reason != "" {
			lines = append(lines, t.Reason)
		}
		if t.Limit != "" && t.State != refill.Paused { // the reason says that
			lines = append(lines, "held by "+t.Limit)
		}
		if t.Shadow != nil {
			lines = append(lines, t.Shadow.Text)
		}
		if t.HitRateNeeds != nil {
			lines = append(lines, t.HitRateNeeds.Text)
		}
		for n, line := range lines {
			if n == 0 {
				text.WriteString("\n")
			}
			fmt.Fprintf(text, "%s: %s\n", t.Name, line)
		}
	}
}

// wanted tells also that a warm window wants tokens.
func wanted(want, warm int) string {
	switch warm {
	case 0:
		return strconv.Itoa(want)
	case want:
		return fmt.Sprintf("%d (warm)", want)
	}
	return fmt.Sprintf("%d (warm %d)", want, warm)
}

func withReason(state, reason string) string {
	if reason == "" {
		return state
	}
	return state + " (" + reason + ")"
}

// known formats a figure, or a dash where there is none yet.
func known(is bool, format string, value float64) string {
	if !is {
		return "-"
	}
	return fmt.Sprintf(format, value)
}
