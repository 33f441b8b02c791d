package status

import (
	"fmt"
	"slices"

	"poold/internal/purchase"
	"poold/internal/redisdb"
	"poold/internal/targets"
)

// notices lists the facts that the operator should know; never nil.
func (c *Collector) notices(set *targets.Set, providers []purchase.Status, health redisdb.Health) []string {
	list := append(waysOfRunning(set, providers), health.Notices...)
	if n := c.DeadLetters.DeadLettersSetAside(); n > 0 {
		list = append(list, fmt.Sprintf("%d dead letters could not be read and were renamed to *.bad: they may hold paid tokens.", n))
	}
	for _, lost := range c.Purchases.Stranded() {
		list = append(list,
			fmt.Sprintf("%d paid tasks of provider %s cannot be collected: no provider of the file has its account. They count as in flight until %s UTC. To collect them, list the account again with the same api, url and key.",
				lost.Orders, lost.Provider, lost.Until.UTC().Format("15:04:05")))
	}
	return list
}

// waysOfRunning returns the notices about the configuration file and the providers.
func waysOfRunning(set *targets.Set, providers []purchase.Status) []string {
	list := []string{}
	for _, p := range providers {
		if p.Silent {
			list = append(list, "No callbacks arrived for the last tasks of provider "+p.Name+", so they are polled. Check that the service can reach callback_url, and that it is the base address alone.")
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

// remedies returns one text with the known remedies for all providers that are down.
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
