package status

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"poold/internal/provider"
	"poold/internal/refill"
)

// mostShared is the maximum number of notices about shared reasons.
const mostShared = 5

// noThread stands for the reason of targets that wait for a permit of some provider.
const noThread = "threads in use"

// shared is a reason that several targets have, without the parts that differ between targets.
type shared struct{ state, reason string }

// sharedReasons returns one line about each reason that several targets of a document have, so that
// the reader need not compare their rows. The reason that most targets share comes first. An outage
// of Redis is left out, because an alarm already reports it.
func sharedReasons(d *Document) []string {
	counts := map[shared]int{}
	for i := range d.Targets {
		if s, ok := sharedReason(&d.Targets[i]); ok && s.reason != d.Redis.Reason {
			counts[s]++
		}
	}
	maps.DeleteFunc(counts, func(_ shared, n int) bool { return n < 2 })
	reasons := slices.SortedFunc(maps.Keys(counts), func(a, b shared) int {
		return cmp.Or(counts[b]-counts[a], strings.Compare(a.state, b.state), strings.Compare(a.reason, b.reason))
	})
	lines := []string{}
	for _, s := range reasons[:min(mostShared, len(reasons))] {
		lines = append(lines, s.line(d, counts[s]))
	}
	return lines
}

// sharedReason returns the reason of a target that is in trouble.
func sharedReason(t *Target) (s shared, ok bool) {
	reason, _, _ := strings.Cut(t.Reason, "; ")
	switch {
	case t.State == refill.Starved && slices.Contains(t.Marks, markFailing):
		reason = markFailing
	case t.State == refill.Starved && strings.HasSuffix(reason, " in use"):
		reason = noThread // the number and the provider may differ
	case t.State == refill.Refused:
		reason = strings.TrimPrefix(reason, refusedPrefix)
	}
	return shared{t.State, reason}, t.State == refill.Starved || t.State == refill.Budget || t.State == refill.Refused
}

// line returns the line about a reason that n targets share.
func (s shared) line(d *Document, n int) string {
	switch s.reason {
	case noThread:
		return fmt.Sprintf("%d targets wait for a thread: %s", n, threadsInUse(d.Providers))
	case refill.OverallBudget:
		limit := ""
		if d.Budget != nil {
			limit = fmt.Sprintf(" of %d solves a day", d.Budget.Limit)
		}
		return fmt.Sprintf("%d targets buy nothing: the overall budget%s is used up; raise budget.per_day, or wait until it has room", n, limit)
	case refill.OwnBudget:
		return fmt.Sprintf("%d targets buy nothing: their own budgets are used up; raise their budgets, or wait until they have room", n)
	case markFailing:
		return fmt.Sprintf("%d targets get no tokens: their last orders all failed, so each places one order in 5 s; look at the reasons of their rows", n)
	}
	if s.state == refill.Refused {
		return fmt.Sprintf("%d targets are refused by the provider (%s): each places one order at growing intervals; compare their sitekeys and pages with the sites", n, s.reason)
	}
	return fmt.Sprintf("%d targets are %s: %s", n, s.state, s.reason)
}

// threadsInUse describes the threads of the providers, and what the operator can do.
func threadsInUse(providers []Provider) string {
	var parts []string
	action := "poold tries again by itself; to have more threads, add a provider"
	for _, p := range providers {
		switch {
		case p.State == string(provider.StateDown):
			parts = append(parts, "provider "+p.Name+" is down")
		case p.InFlight >= p.Concurrency:
			parts = append(parts, fmt.Sprintf("provider %s has %d of %d in use", p.Name, p.InFlight, p.Concurrency))
			action = "raise concurrency or add a provider"
		case p.Reason != "":
			parts = append(parts, fmt.Sprintf("provider %s is %s (%s)", p.Name, p.State, p.Reason))
		default:
			parts = append(parts, fmt.Sprintf("provider %s has only %d of %d in use", p.Name, p.InFlight, p.Concurrency))
		}
	}
	return strings.Join(parts, ", ") + "; " + action
}
