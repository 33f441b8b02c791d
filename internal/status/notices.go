package status

import (
	"fmt"
	"slices"

	"poold/internal/purchase"
	"poold/internal/redisdb"
	"poold/internal/targets"
)

// notices lists facts that the operator should know; never nil.
func (c *Collector) notices(set *targets.Set, providers []purchase.Status, health redisdb.Health) []string {
	list := append(waysOfRunning(set, providers), health.Notices...)
	if n := c.DeadLetters.DeadLettersSetAside(); n > 0 {
		list = append(list, fmt.Sprintf("%d files of the dead letters could not be read and were set aside as *.bad: they may hold paid tokens.", n))
	}
	for _, lost := range c.Purchases.Stranded() {
		list = append(list,
			fmt.Sprintf("%d paid tasks of provider %s cannot be collected: no provider of the file has its account. They count until %s UTC; list it again (api, url and key as they were) to collect them.",
				lost.Orders, lost.Provider, lost.Until.UTC().Format("15:04:05")))
	}
	return list
}

// waysOfRunning returns the notices about the file and its providers.
func waysOfRunning(set *targets.Set, providers []purchase.Status) []string {
	list := []string{}
	for _, p := range providers {
		if p.Silent {
			list = append(list, "No callback of provider "+p.Name+" came for its last tasks, so they are polled: is its callback_url reachable for the service, and the base address alone?")
		}
	}
	simulated := slices.ContainsFunc(set.Providers, func(p targets.Provider) bool { return p.API == targets.APISimulated })
	if simulated {
		list = append(list, "The provider is simulated: its tokens are made up and no site accepts them.")
	}
	if set.Redis.Embedded() && !simulated {
		list = append(list, "Redis is embedded: a restart loses all tokens and orders, also those that were paid for.")
	}
	return list
}

// remedies lists the known remedies for providers that are down.
func remedies(providers []purchase.Status) (text string) {
	for _, p := range providers {
		if p.State.Remedy != "" {
			text += ". Provider " + p.Name + ": " + p.State.Remedy
		}
	}
	return text
}

// alarms lists the reasons why the store cannot be used; never nil.
func (r Redis) alarms() []string {
	switch {
	case !r.OK:
		return []string{"The store cannot be used: " + r.Reason + ". The figures of the targets may be the last known ones."}
	case r.Reason != "":
		return []string{"A part of the store cannot be used: " + r.Reason + ". The figures of the targets in it are the last known ones."}
	}
	return []string{}
}
