package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"poold/internal/refill"
	"poold/internal/status"
)

// statusText formats the status: alarms, the tables of providers and targets, remarks on the
// targets, and the state of the daemon. The argument asked is true if the user selected targets by
// name. If only one target matches, statusText shows all its figures.
func statusText(d *status.Document, asked bool, s screen) string {
	var text strings.Builder
	say := func(line string) { text.WriteString(wrapLines(Printable(line), s.columns) + "\n") }
	for _, alarm := range append(refusedFile(d.Config), d.Alarms...) {
		say(alarm)
		say("")
	}
	text.WriteString(providerTable(d, s).text(s.columns))
	for _, p := range d.Providers {
		if p.Reason != "" {
			say(providerLine(p))
		}
	}
	if compared := comparedTable(d); compared != nil {
		text.WriteString("\n" + compared.text(s.columns))
		for _, c := range d.ProviderChanges {
			say(changeLine(c))
		}
	}
	text.WriteString("\n" + targetTable(d, s).text(s.columns))
	if asked && len(d.Targets) == 0 {
		text.WriteString("\n")
		say("no target matches")
	}
	names := namesByReason(d.Targets, asked)
	for i := range d.Targets {
		t := &d.Targets[i]
		for n, line := range remarks(t) {
			who := t.Name
			if equal := names[line]; line == t.Reason && len(equal) > 1 {
				if t.Name != equal[0] {
					continue // the line of the first target with this reason contains all names
				}
				who = manyNames(equal)
			}
			if n == 0 {
				text.WriteString("\n")
			}
			say(who + ": " + line)
		}
	}
	if asked && len(d.Targets) == 1 {
		text.WriteString("\n" + figures(d, &d.Targets[0]).text(s.columns))
	}
	text.WriteString("\n")
	for _, line := range daemonLines(d) {
		say(line)
	}
	return text.String()
}

// namesByReason maps each reason to the names of the targets with this reason. If the user selected
// targets by name, each target has its own line, and the result is nil.
func namesByReason(list []status.Target, asked bool) map[string][]string {
	if asked {
		return nil
	}
	names := map[string][]string{}
	for i := range list {
		names[list[i].Reason] = append(names[list[i].Reason], list[i].Name)
	}
	return names
}

// manyNames joins the first three names and adds the number of the remaining names.
func manyNames(names []string) string {
	const shown = 3
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more targets", strings.Join(names[:shown], ", "), len(names)-shown)
}

// refusedFile lists the problems for which the daemon refused the file. refusedFile returns nil if
// the file was applied.
func refusedFile(c status.Config) (lines []string) {
	if c.OK || len(c.Problems) == 0 {
		return nil
	}
	lines = append(lines, "The configuration file was not applied; the last good one, of "+c.LoadedAt+", is in use:")
	return append(lines, c.Problems...)
}

// providerLine describes a provider that is not ok: the reason, the start of the outage, the next
// attempt, and the remedy.
func providerLine(p status.Provider) string {
	line := p.Name + ": " + p.Reason
	if p.Since != "" {
		line += "; since " + p.Since
	}
	if p.RetryAt != "" {
		line += "; next try at " + p.RetryAt
	}
	if p.Remedy != "" {
		line += "; " + p.Remedy
	}
	return line
}

func providerTable(d *status.Document, s screen) *table {
	t := &table{paint: s.paintState(1)}
	t.row("PROVIDER", "STATE", "ORDERS", "LIMIT", "BALANCE", "CALLBACKS")
	for _, p := range d.Providers {
		balance, callbacks := "-", "no"
		if p.Balance != nil {
			balance = Printable(d.Currency.With(fmt.Sprintf("%.6g", *p.Balance)))
		}
		if p.Callbacks {
			callbacks = "yes"
		}
		t.row(Printable(p.Name), Printable(p.State), strconv.Itoa(p.InFlight), strconv.Itoa(p.Concurrency), balance, callbacks)
	}
	return t
}

// comparedTable compares the providers by type; nil = there is nothing to compare.
func comparedTable(d *status.Document) *table {
	t := &table{}
	t.row("PROVIDER", "TYPE", "SHARE", "SOLVED", "ACCEPTED", "LEAD", "COST")
	empty := true
	for _, p := range d.Providers {
		for _, x := range p.Types {
			accepted, cost := "-", "-"
			if x.Accepted != nil {
				accepted = percent(*x.Accepted)
			}
			if x.Cost != nil {
				cost = Printable(d.Currency.With(fmt.Sprintf("%.4g", *x.Cost)))
			}
			t.row(Printable(p.Name), Printable(x.Type), percent(x.Share), percent(x.Solved), accepted, fmt.Sprintf("%.1fs", x.LeadP50), cost)
			empty = false
		}
	}
	if empty {
		return nil
	}
	return t
}

func percent(share float64) string { return fmt.Sprintf("%.0f%%", 100*share) }

// changeLine says which provider gets the most orders of a type, since when and why.
func changeLine(c status.ProviderChange) string {
	return fmt.Sprintf("%s: most orders go to %s instead of %s since %s; %s", c.Type, c.To, c.From, c.At, c.Reason)
}

// targetTable returns the table of targets, with the same figures as the table of the status page.
func targetTable(d *status.Document, s screen) *table {
	t := &table{paint: s.paintState(1)}
	t.row("TARGET", "STATE", "FRESH", "WANT", "ORDERS", "WAITING", "HITS", "REQUESTS", "LEAD", "SPENT")
	for i := range d.Targets {
		x := &d.Targets[i]
		spent := status.Money(0)
		if len(x.Days) > 0 && strings.HasPrefix(d.AsOf, x.Days[0].Date) {
			spent = x.Days[0].Spent
		}
		hour := &x.Hour
		t.row(Printable(x.Name), Printable(x.State), strconv.Itoa(x.Fresh), wanted(x.Want, x.Warm), strconv.Itoa(x.InFlight), strconv.Itoa(x.Waiting),
			formatKnown(hour.Hits+hour.Waited+hour.Misses > 0, "%.1f %%", 100*hour.HitRate), strconv.FormatInt(hour.Requests, 10),
			formatKnown(x.LeadTime.P50 > 0, "%.1f s", x.LeadTime.P50), price(d.Currency, spent))
	}
	return t
}

// remarks returns the texts about a target that do not fit into the table.
func remarks(t *status.Target) (lines []string) {
	if t.Reason != "" {
		lines = append(lines, t.Reason)
	}
	if len(t.Marks) > 0 {
		lines = append(lines, "marked "+strings.Join(t.Marks, ", "))
	}
	if t.Limit != "" && t.State != refill.Paused { // the reason of a pause already names the limit
		lines = append(lines, "held by "+t.Limit)
	}
	return lines
}

func figures(d *status.Document, t *status.Target) *table {
	of := &table{}
	line := func(name, format string, args ...any) { of.row(name, Printable(fmt.Sprintf(format, args...))) }
	line("type", "%s", t.Type)
	line("sitekey", "%s", t.Sitekey)
	line("pageurl", "%s", t.Pageurl)
	line("owner", "%s", t.Owner)
	line("refill", "%s, depth %d, wanted %d", t.Refill, t.Depth, t.Want)
	line("fresh", "%d, ending soon %d, next end in %s", t.Fresh, t.Ageing, expiry(t.NextExpiry))
	line("orders", "%d, outcome unknown %d, callers waiting %d", t.InFlight, t.Unknown, t.Waiting)
	line("requests", "%d, hits %d, waited %d, misses %d, hit rate %s", t.Requests, t.Hits, t.Waited, t.Misses,
		formatKnown(t.Hits+t.Waited+t.Misses > 0, "%.1f %%", 100*t.HitRate))
	line("bought", "%d, solved %d, expired %d, discarded %d, failed %d, lost %d", t.Bought, t.Solved, t.Expired, t.Discarded, t.Failed, t.Lost)
	line("bought each", "%s per token served", formatKnown(t.BoughtPerServed > 0, "%.2f", t.BoughtPerServed))
	line("reports", "accepted %d, rejected %d", t.Accepted, t.Rejected)
	line("lead time", "p50 %s, p90 %s", formatKnown(t.LeadTime.P50 > 0, "%.1f s", t.LeadTime.P50), formatKnown(t.LeadTime.P90 > 0, "%.1f s", t.LeadTime.P90))
	line("spent", "%s in all", price(d.Currency, t.Spent))
	budget := "-"
	if t.Budget != nil {
		budget = usedOf(*t.Budget)
	}
	line("budget", "%s", budget)
	for _, f := range t.LastFailures {
		line("failed", "%s: %s", f.At, f.Reason)
	}
	return of
}

func expiry(seconds *float64) string {
	if seconds == nil {
		return "-"
	}
	return time.Duration(*seconds * float64(time.Second)).Round(time.Second).String()
}

// daemonLines describes the state of the daemon: version, Redis, overall budget, solves on demand,
// dead letters, notices and warnings.
func daemonLines(d *status.Document) (lines []string) {
	ready, redis := "ready", "answers"
	if !d.Ready {
		ready = "not ready"
	}
	if !d.Redis.OK {
		redis = "cannot be used"
	}
	lines = append(lines, fmt.Sprintf("poold %s, %s; redis (%s) %s", d.Version, ready, d.Redis.Mode, redis))
	if d.Redis.Reason != "" {
		lines = append(lines, d.Redis.Reason)
	}
	if d.Budget != nil {
		lines = append(lines, "overall budget: "+used(d.Budget, "a day"))
	}
	lines = append(lines, onDemandLines(d)...)
	if d.DeadLetters > 0 {
		lines = append(lines, fmt.Sprintf("dead letters: %d (poold dead-letters list)", d.DeadLetters))
	}
	lines = append(lines, d.Notices...)
	if d.Config.OK {
		lines = append(lines, d.Config.Problems...)
	}
	return lines
}

// onDemandLines returns a line about the solves on demand and a line about shared solves. Either
// line is omitted if there were no such solves.
func onDemandLines(d *status.Document) (lines []string) {
	if s := d.Solve; s != nil && s.Used() {
		lines = append(lines, fmt.Sprintf("on-demand solves: guests %d, fresh %d, orders %d, waiting %d, requests %d, bought %d, solved %d, failed %d, spent %s; budget %s",
			s.Guests, s.Fresh, s.InFlight, s.Waiting, s.Requests, s.Bought, s.Solved, s.Failed, price(d.Currency, s.Spent), usedOf(s.Budget)))
		if s.Reason != "" {
			lines = append(lines, "on-demand solves: "+s.Reason)
		}
	}
	if s := d.Dedup; s != nil && (s.Requests > 0 || s.Reason != "") {
		lines = append(lines, fmt.Sprintf("savings: %d of %d tokens in the last 7 days served another request too (%.1f %%); %d requests missed, %d were refused",
			s.Saved, s.Served(), s.SavedPct, s.Missed, s.Refused))
		if s.Reason != "" {
			lines = append(lines, "savings: "+s.Reason)
		}
	}
	return lines
}

// used formats the usage of a budget and its limit, for example "3/10 a day". If the budget has no
// such limit, the result is "".
func used(u *status.Usage, of string) string {
	if u == nil {
		return ""
	}
	return fmt.Sprintf("%d/%d %s", u.Used, u.Limit, of)
}

// usedOf formats how much of the budget of a target or of all guests is used.
func usedOf(b status.Budget) string {
	return strings.Trim(used(b.Hour, "an hour")+", "+used(b.Day, "a day"), ", ")
}

// wanted formats the number of wanted tokens, and the number that a warm window wants.
func wanted(want, warm int) string {
	switch warm {
	case 0:
		return strconv.Itoa(want)
	case want:
		return fmt.Sprintf("%d (warm)", want)
	}
	return fmt.Sprintf("%d (warm %d)", want, warm)
}
