package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"poold/internal/purchase"
	"poold/internal/redisdb"
	"poold/internal/targets"
)

// banner returns one line about a fault, with its beginning, cause, consequence and remedy. If
// since is the zero time, the beginning is unknown. The argument `at` is the time of the snapshot.
func banner(since, at time.Time, cause, consequence, action string) string {
	text := cause + ": " + consequence + "; " + action
	if since.IsZero() {
		return strings.ToUpper(text[:1]) + text[1:]
	}
	return "Since " + shortTime(since, at) + " " + text
}

// shortTime returns the time of day of t in UTC. If t and the argument `at` are on different days,
// the text also has the date.
func shortTime(t, at time.Time) string {
	t, layout := t.UTC(), "15:04 UTC"
	if at = at.UTC(); t.YearDay() != at.YearDay() || t.Year() != at.Year() {
		layout = "2006-01-02 " + layout
	}
	return t.Format(layout)
}

func plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// notices lists the facts that the operator should know; never nil.
func (c *Collector) notices(set *targets.Set, providers []purchase.Status, health redisdb.Health, aside int, at time.Time) []string {
	list := append(waysOfRunning(set, providers), health.Notices...)
	if aside > 0 {
		list = append(list, plural(aside, "dead letter")+" cannot be read, renamed to *.bad: paid tokens may be lost; keep the files, and look up their tasks at the service")
	}
	for _, lost := range c.Purchases.Stranded() {
		list = append(list, plural(lost.Orders, "paid task")+" of provider "+lost.Provider+" cannot be collected, because no provider of the file has its account: they count as in flight until "+shortTime(lost.Until, at)+"; list the account again with the same api, url and key")
	}
	return list
}

// waysOfRunning returns the notices about the configuration file and the providers.
func waysOfRunning(set *targets.Set, providers []purchase.Status) []string {
	list := []string{}
	for _, p := range providers {
		if p.Silent {
			list = append(list, "No callbacks arrived for the last tasks of provider "+p.Name+": its tasks are polled; check that the service can reach callback_url, and that it is the base address alone")
		}
	}
	simulated := slices.ContainsFunc(set.Providers, func(p targets.Provider) bool { return p.API == targets.APISimulated })
	if simulated {
		list = append(list, "The provider is simulated: its tokens are made up and no site accepts them; give a provider of the file a key")
	}
	if set.Redis.Embedded() && !simulated {
		list = append(list, "Redis is embedded: a restart loses all tokens and orders, also those that were paid for; set redis.url")
	}
	return list
}

// outage reports whether all providers are down. It returns the reason, and when the first of them can be used again;
// zero = unknown.
func outage(providers []purchase.Status) (reason string, until time.Time, is bool) {
	if len(providers) == 0 {
		return "no provider is configured", time.Time{}, true
	}
	for _, p := range providers {
		if p.State.Kind.Usable() {
			return "", time.Time{}, false
		}
		if until.IsZero() || p.State.Until.Before(until) {
			until = p.State.Until
		}
	}
	first := providers[0]
	return fmt.Sprintf("provider %s is %s: %s", first.Name, first.State.Kind, first.State.Reason), until, true
}

// outages returns a line about each provider that is down. If all providers are down, the lines are
// alarms. Otherwise they are notices, because the other providers get the orders.
func outages(providers []purchase.Status, at time.Time) (alarms, notices []string) {
	if len(providers) == 0 {
		return []string{"No provider is configured: nothing is bought; add a provider to the configuration file"}, nil
	}
	_, _, all := outage(providers)
	for _, p := range providers {
		s := p.State
		if s.Kind.Usable() {
			continue
		}
		cause := "provider " + p.Name + " " + cmp.Or(s.Fault, "is down") + " (" + s.Reason + ")"
		action := cmp.Or(s.Remedy, "poold tries again by itself, and at once after `poold probe "+p.Name+"`")
		if all {
			alarms = append(alarms, banner(s.Since, at, cause, "nothing is bought", action))
		} else {
			notices = append(notices, banner(s.Since, at, cause, "the other providers get its orders", action))
		}
	}
	return alarms, notices
}

// alarms lists the reasons why the store cannot be used; never nil.
func (r Redis) alarms(health redisdb.Health, at time.Time) []string {
	switch {
	case health.Full:
		return []string{banner(health.Since, at, r.Reason, "ready tokens are handed out, and nothing is bought", "raise maxmemory, or free memory")}
	case !r.OK:
		return []string{banner(health.Since, at, r.Reason, "no token is handed out and nothing is bought, and the figures of the targets may be the last known ones",
			"repair Redis, or correct redis in the configuration file")}
	case r.Reason != "":
		return []string{banner(health.Since, at, r.Reason, "the targets of this part hand out and buy nothing, and their figures are the last known ones", "repair this part of Redis")}
	}
	return []string{}
}
