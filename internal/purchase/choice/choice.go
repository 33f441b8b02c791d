package choice

import (
	"context"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"poold/internal/captcha"
	"poold/internal/pool"
)

// These words say how a provider was chosen.
const (
	Ordered  = "ordered"  // the first provider that was up
	Cheapest = "cheapest" // the lowest price
	Best     = "best"     // the lowest expected cost per accepted token
	Explore  = "explore"  // another provider than the best one, to learn about it
	Probe    = "probe"    // one whose brake lets an order pass
)

// A test of simulated providers (scenarios_test.go) prints what these constants cost.
const (
	// Before any outcome, a share is assumed to be priorShare; this assumption weighs as much as priorWeight outcomes.
	priorShare, priorWeight = 0.9, 2
	// leastShare is the smallest share that is used to compute a cost, so that costs are finite.
	leastShare = 0.02
	// nearly is the relative difference below which two costs count as equal, so that the order of the file decides.
	nearly = 0.02
	// exploreShare is the share of orders that explore. They try only providers that could save at least the share
	// leastGain of the cost.
	exploreShare, leastGain = 0.03, 0.05
	// If the reports of all other callers weigh at least leastOthers, the reports of one caller weigh at most half.
	leastOthers = 5
)

// Offer is a provider of the file with its prices.
type Offer struct {
	Name  string
	Price func(captcha.Type) float64 // of a token; negative = unknown
}

// Chooser chooses providers. It is safe for concurrent use.
type Chooser struct {
	pool *pool.Pool
	log  *slog.Logger

	mu        sync.Mutex
	providers []Offer
	sums      map[captcha.Type]map[string]pool.Sums // by provider
}

// New returns a Chooser without providers.
func New(p *pool.Pool, log *slog.Logger) *Chooser {
	return &Chooser{pool: p, log: log}
}

// SetProviders replaces the providers.
func (c *Chooser) SetProviders(providers []Offer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.providers = providers
}

// Read reads the sums of the results from Redis. It is called once a second.
func (c *Chooser) Read(ctx context.Context) {
	c.mu.Lock()
	var names []string
	for _, p := range c.providers {
		names = append(names, p.Name)
	}
	c.mu.Unlock()
	if len(names) < 2 {
		return
	}
	sums, err := c.pool.Sums(ctx, names)
	if err != nil {
		c.log.Debug("the outcomes of orders are not read", "err", err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sums = sums
}

// Choose returns the index of an offer, and a word that says how it was chosen. There must be at least one offer. If
// explores is true and the policy is Best, the order may go to a provider that is not the best so far.
func (c *Chooser) Choose(policy string, t captcha.Type, explores bool, offers []Offer) (index int, how string) {
	prices, sums := make([]float64, len(offers)), make([]pool.Sums, len(offers))
	c.mu.Lock()
	for i, o := range offers {
		prices[i], sums[i] = o.Price(t), c.sums[t][o.Name]
	}
	c.mu.Unlock()
	if policy == Cheapest {
		return lowest(comparable(prices, 0)), Cheapest
	}
	dice := 1.0
	if explores {
		dice = rand.Float64() //nolint:gosec // G404: no secret depends on it
	}
	return best(prices, sums, dice)
}

// best chooses the provider with the lowest expected cost. If the random number dice is below exploreShare, it explores
// instead.
func best(prices []float64, sums []pool.Sums, dice float64) (index int, how string) {
	prices = comparable(prices, math.SmallestNonzeroFloat64)
	reported := slices.ContainsFunc(sums, func(s pool.Sums) bool { _, all := reports(s); return all > 0 })
	costs := make([]float64, len(prices))
	for i, s := range sums {
		costs[i] = prices[i] / lower(s["order:solved"], s["order:ended"])
		if reported { // else all tokens count as accepted
			costs[i] /= lower(reports(s))
		}
	}
	least := lowest(costs)
	if dice < exploreShare {
		var others []int
		for i, price := range prices {
			if i != least && price <= costs[least]*(1-leastGain) {
				others = append(others, i)
			}
		}
		if len(others) > 0 {
			return others[int(dice/exploreShare*float64(len(others)))], Explore
		}
	}
	return least, Best
}

// comparable returns the prices, or equal prices if some price is below `least`, such as an unknown one.
func comparable(prices []float64, least float64) []float64 {
	if slices.Min(prices) < least {
		return slices.Repeat([]float64{1}, len(prices))
	}
	return prices
}

// lowest returns the first index whose cost is nearly the lowest.
func lowest(costs []float64) int {
	least := slices.Min(costs)
	return slices.IndexFunc(costs, func(cost float64) bool { return cost <= least*(1+nearly) })
}

// mean estimates the share of good results; few results change the prior share only a little.
func mean(good, all float64) float64 { return (good + priorShare*priorWeight) / (all + priorWeight) }

// lower returns the lower confidence bound of a share: one standard deviation below its mean.
func lower(good, all float64) float64 {
	m := mean(good, all)
	return max(leastShare, m-math.Sqrt(m*(1-m)/(all+priorWeight+1)))
}

// reports returns the weights of the accepted tokens and of all reports. A caller's reports weigh at most half, so that
// one key cannot turn the orders away from a provider. If nearly all reports come from one caller, only that caller's
// reports decide.
func reports(s pool.Sums) (accepted, all float64) {
	total, good := map[string]float64{}, map[string]float64{}
	for name, sum := range s {
		if caller, is := strings.CutPrefix(name, "report:accepted:"); is {
			good[caller] = sum
			total[caller] += sum
			accepted, all = accepted+sum, all+sum
		} else if caller, is := strings.CutPrefix(name, "report:rejected:"); is {
			total[caller] += sum
			all += sum
		}
	}
	for caller, own := range total {
		if others := all - own; own > others && others >= leastOthers {
			return accepted - good[caller]*(1-others/own), 2 * others
		}
	}
	return accepted, all
}
