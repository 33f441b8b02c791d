package simulate

import (
	"context"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"

	"poold/internal/cli"
	"poold/internal/refill/policy"
	"poold/internal/refill/policy/worth"
	"poold/internal/targets"
)

// The demand and the target of --providers, unless flags give others.
const (
	providersDemand = "poisson:0.2"
	providersDepth  = 30
)

// The wanted results of the policy best: its cost over all hours, and in each hour that begins an hour
// or more after a change, relative to the best fixed choice in hindsight.
const (
	wantedOverall = 1.05
	wantedHour    = 1.10
)

// ProvidersRow is the result of one way of choosing the provider in one scenario.
type ProvidersRow struct {
	Scenario string  `json:"scenario"`
	Choice   string  `json:"choice"` // ordered, cheapest, best, or "only NAME"
	Cost     float64 `json:"cost"`   // expected cost per accepted token, in the unit of price_per_1000 divided by 1000
	// Relative is the cost divided by the cost of the best fixed choice in hindsight, which is one
	// provider for each type.
	Relative float64            `json:"relative"`
	HitRate  float64            `json:"hit_rate"`
	Shares   map[string]float64 `json:"shares"`   // share of the orders by provider
	Explored float64            `json:"explored"` // share of the orders
	// WorstHour is the highest cost in an hour relative to the best fixed choice of this hour, among the
	// hours that begin an hour or more after a change. WorstAt is the number of this hour.
	WorstHour float64 `json:"worst_hour"`
	WorstAt   int     `json:"worst_at"`
}

// tally sums the results of one way of choosing over all seeds and types.
type tally struct {
	hours                    []policy.HourCost
	byType                   map[string]*policy.HourCost
	orders                   []int
	explored, hits, requests int
}

func (t *tally) add(kind string, r policy.ProviderResult) {
	if t.hours == nil {
		t.hours, t.orders, t.byType = make([]policy.HourCost, len(r.Hours)), make([]int, len(r.Orders)), map[string]*policy.HourCost{}
	}
	if t.byType[kind] == nil {
		t.byType[kind] = new(policy.HourCost)
	}
	for i, h := range r.Hours {
		t.hours[i].Add(h)
		t.byType[kind].Add(h)
	}
	for i, n := range r.Orders {
		t.orders[i] += n
	}
	t.explored, t.hits, t.requests = t.explored+r.Explored, t.hits+r.Hits, t.requests+r.Requests
}

// compareProviders compares the policies on all scenarios of the file.
func (s *simulation) compareProviders(ctx context.Context, c *cli.Console, given func(flag string) bool) error {
	for _, other := range []string{"compare", "plot", "fail", "lead", "price", "trace"} {
		if given(other) {
			return cli.UsageError("--" + other + " does not go with --providers: the file has the providers, and --demand the demand")
		}
	}
	if s.seeds < 1 || s.seeds > mostSeeds {
		return cli.UsageError("--seeds is from 1 to 1000")
	}
	scenarios, err := readScenarios(s.providers)
	if err != nil {
		return err
	}
	if !given("demand") {
		s.demand = providersDemand
	}
	if !given("target") && !given("depth") {
		s.params.Depth = providersDepth
		if !given("refill") {
			s.refill = string(targets.RefillAdaptive)
		}
		outer := given
		given = func(flag string) bool { return flag == "depth" || flag == "refill" || outer(flag) }
	}
	base, err := s.base(ctx, c, given)
	if err != nil {
		return err
	}
	bar := newBar(c.Stderr)
	defer bar.clear()
	var rows []ProvidersRow
	for i := range scenarios {
		bar.show(float64(i) / float64(len(scenarios)))
		more, err := s.compareIn(ctx, &scenarios[i], base)
		if err != nil {
			return err
		}
		rows = append(rows, more...)
	}
	bar.clear()
	return printProviders(c.Stdout, rows, s.json)
}

// choices returns the ways of choosing a provider: the policies, and each fixed choice.
func (s *scenario) choices() (list []policy.ProviderSimulation, names []string) {
	for _, p := range []worth.Policy{worth.Ordered, worth.Cheapest, worth.Best} {
		list, names = append(list, policy.ProviderSimulation{Policy: p, Fixed: -1}), append(names, string(p))
	}
	for i, p := range s.Providers {
		list, names = append(list, policy.ProviderSimulation{Fixed: i}), append(names, "only "+p.Name)
	}
	return list, names
}

// compareIn runs all ways of choosing in one scenario, with all seeds and types.
func (s *simulation) compareIn(ctx context.Context, in *scenario, base policy.Simulation) ([]ProvidersRow, error) {
	choices, names := in.choices()
	tallies := make([]tally, len(choices))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	var runs sync.WaitGroup
	free := make(chan struct{}, runtime.GOMAXPROCS(0))
	for seed := range uint64(s.seeds) { //nolint:gosec // G115: checked above
		arrivals, err := policy.Demand(s.demand, s.length.Seconds(), s.seed+seed)
		if err != nil {
			return nil, cli.UsageError("--demand: " + err.Error())
		}
		for n, choice := range choices {
			for _, kind := range in.Types {
				one := choice
				one.Simulation, one.Providers, one.Reported, one.Callers = base, in.simulated(kind), *in.Reported, in.Callers
				one.Arrivals, one.Seed = arrivals, s.seed+seed
				free <- struct{}{}
				runs.Go(func() {
					defer func() { <-free }()
					result, err := one.Run(ctx)
					mu.Lock()
					defer mu.Unlock()
					if err != nil {
						cancel(err)
						return
					}
					tallies[n].add(kind, result)
				})
			}
		}
	}
	runs.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return in.rows(names, tallies), nil
}

// rows returns the rows of a scenario.
func (s *scenario) rows(names []string, tallies []tally) []ProvidersRow {
	fixed := tallies[len(tallies)-len(s.Providers):]
	var hindsight policy.HourCost // the best provider of each type
	for _, kind := range s.Types {
		best := *fixed[0].byType[kind]
		for _, t := range fixed[1:] {
			if t.byType[kind].PerToken() < best.PerToken() {
				best = *t.byType[kind]
			}
		}
		hindsight.Add(best)
	}
	var rows []ProvidersRow
	for n, t := range tallies {
		row := ProvidersRow{Scenario: s.Name, Choice: names[n], HitRate: float64(t.hits) / float64(max(1, t.requests)), Shares: map[string]float64{}}
		var all policy.HourCost
		for hour, h := range t.hours {
			all.Add(h)
			best := fixed[0].hours[hour].PerToken()
			for _, f := range fixed[1:] {
				best = min(best, f.hours[hour].PerToken())
			}
			if best == 0 || s.hourAfterChange(hour) {
				continue
			}
			if relative := h.PerToken() / best; relative > row.WorstHour {
				row.WorstHour, row.WorstAt = relative, hour
			}
		}
		orders := 0
		for _, n := range t.orders {
			orders += n
		}
		for i, n := range t.orders {
			row.Shares[s.Providers[i].Name] = float64(n) / float64(max(1, orders))
		}
		row.Cost, row.Relative, row.Explored = all.PerToken(), all.PerToken()/hindsight.PerToken(), float64(t.explored)/float64(max(1, orders))
		rows = append(rows, row)
	}
	return rows
}

func printProviders(w io.Writer, rows []ProvidersRow, asJSON bool) error {
	if asJSON {
		return printJSON(w, map[string]any{"runs": rows})
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "scenario\tchoice\tcost/1000\tof best fixed\tworst hour\thits\texplored\torders")
	scenario, missed := "", []string{}
	for _, r := range rows {
		name := r.Scenario
		if name == scenario {
			name = ""
		}
		scenario = r.Scenario
		if r.Choice == string(worth.Best) && (r.Relative > wantedOverall || r.WorstHour > wantedHour) {
			missed = append(missed, r.Scenario)
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%.3f\t%.3f\t%.3f (hour %d)\t%.2f %%\t%.1f %%\t%s\n", name, r.Choice, perSolve*r.Cost, r.Relative,
			r.WorstHour, r.WorstAt, 100*r.HitRate, 100*r.Explored, sharesText(r.Shares))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	says := fmt.Sprintf("best costs at most %.0f %% more than the best fixed choice in every scenario, and at most %.0f %% more in every hour that begins an hour or more after a change",
		100*(wantedOverall-1), 100*(wantedHour-1))
	if len(missed) > 0 {
		says = fmt.Sprintf("best costs more than %.0f %% above the best fixed choice, or more than %.0f %% in an hour, in: %s", 100*(wantedOverall-1), 100*(wantedHour-1), strings.Join(missed, ", "))
	}
	_, err := fmt.Fprintln(w, says)
	return err
}

func sharesText(shares map[string]float64) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(shares)) {
		parts = append(parts, fmt.Sprintf("%s %.0f %%", name, 100*shares[name]))
	}
	return strings.Join(parts, ", ")
}
