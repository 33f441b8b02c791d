package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"poold/internal/captcha"
	"poold/internal/cli"
	"poold/internal/provider"
	"poold/internal/refill"
	"poold/internal/refill/policy"
	"poold/internal/targets"
	"poold/internal/targets/reload"
)

const (
	defaultConcurrency = 64
	mostLength         = 366 * 24 * time.Hour
	// modelLength is the default length of a demand model.
	modelLength = 24 * time.Hour
)

// simulation holds the flags of `poold simulate`.
type simulation struct {
	config, target, trace, demand, history, plot string

	length        time.Duration
	solves        policy.Solves
	concurrency   int
	settings      targets.Target // the flags of a target's settings
	seed          uint64
	price         float64 // of 1000 solves; 0 = unknown
	currency      targets.Currency
	json, compare bool
	daemon        func() (*cli.Client, error)
}

// simulationFlags adds the flags of the command. The flags for a target's settings have the values
// of the target as their defaults.
func simulationFlags(command *cobra.Command, c *cli.Console) *simulation {
	s := new(simulation)
	flags, t := command.Flags(), &s.settings
	flags.StringVar(&s.config, "config", c.Env("POOLD_CONFIG", "pools.yaml"),
		"the `file` that --target is in (env POOLD_CONFIG)")
	flags.StringVar(&s.target, "target", "",
		"the `name` of a target in the file; without it give --depth, and no file is read. "+
			"For warm windows second 0 is Monday, 00:00 UTC")
	flags.StringVar(&s.trace, "trace", "", "`file` with one arrival per line, in seconds from the start")
	flags.StringVar(&s.demand, "demand", "", "instead of a trace, random arrivals of a `model`: "+policy.DemandHelp)
	flags.StringVar(&s.history, "from-history", "",
		"instead of a trace, the requests of the `key` with this name that a daemon's audit has, "+
			"of the target or of all, in the last --length")
	flags.DurationVar(&s.length, "length", modelLength,
		"length of --demand; the spend a day is counted over it, with other demand by default until its last arrival")
	usual := policy.DefaultSolves()
	flags.DurationVar(&s.solves.Median, "lead", usual.Median,
		"median lead time of the provider; lead times are lognormal, from a third to twenty thirds of it")
	flags.Float64Var(&s.solves.Sigma, "spread", usual.Sigma,
		"spread of the lead times, the sigma of their lognormal distribution, 0 to 5")
	flags.Float64Var(&s.solves.Fail, "fail", usual.Fail, "share of solves that fail, 0 to 1")
	flags.IntVar(&s.concurrency, "concurrency", defaultConcurrency, "most orders in flight")
	flags.DurationVar(&t.Lifetime, "lifetime", 0, "lifetime of a token (default the target's, else 2m)")
	flags.DurationVar(&t.Margin, "margin", 0,
		"last part of the lifetime, in which a token is not handed out (default the target's, else 40s)")
	flags.StringVar((*string)(&t.Refill), "refill", "", "fixed or adaptive (default the target's, else fixed)")
	flags.IntVar(&t.Depth, "depth", 0,
		"fixed: tokens kept; adaptive: most tokens kept and on order (default the target's)")
	flags.IntVar(&t.Min, "min", 0, "adaptive: tokens kept without demand (default the target's, else 0)")
	flags.Float64Var(&t.HitRate, "hit-rate", 0, "adaptive: wanted share of hits (default the target's, else 0.97)")
	flags.Float64Var(&t.MissCost, "miss-cost", 0,
		"adaptive: spare tokens to save one caller a wait (default the target's, else 3)")
	flags.DurationVar(&t.IdleAfter, "idle-after", 0,
		"without a request for this time, fall to --min; 0 = never (default the target's)")
	flags.Uint64Var(&s.seed, "seed", 1, "seed of the random arrivals and lead times; the same seed gives the same answer")
	flags.Float64Var(&s.price, "price", 0,
		"price of 1000 solves, in any currency; 0 = show no money (default price_per_1000 of the target's provider)")
	flags.BoolVar(&s.json, "json", false, "print the answer as JSON")
	flags.BoolVar(&s.compare, "compare", false, "compare fixed depths and the adaptive policy")
	flags.StringVar(&s.plot, "plot", "", "write an SVG `file` of the requests and the tokens of one run")
	command.MarkFlagsMutuallyExclusive("plot", "compare")
	command.MarkFlagsOneRequired("trace", "demand", "from-history")
	command.MarkFlagsMutuallyExclusive("trace", "demand", "from-history")
	s.daemon = cli.ClientFlags(command, c)
	return s
}

// Command returns `poold simulate`.
func Command(c *cli.Console) *cobra.Command {
	command := &cobra.Command{
		Use:   "simulate",
		Short: "replay demand against a refill policy",
		Long:  "Replays a trace or a model of demand against a refill policy, in virtual time and without a provider.",
		Example: "  poold simulate --target staging-login --trace requests.txt\n" +
			"  poold simulate --target staging-login --from-history nightly --length 72h --plot run.svg\n" +
			"  poold simulate --depth 5 --demand office:0.1 --compare",
		Args: cobra.NoArgs,
	}
	s := simulationFlags(command, c)
	command.RunE = func(command *cobra.Command, _ []string) error {
		return s.run(command.Context(), c, command.Flags())
	}
	return command
}

// run runs the simulation or the comparison, and prints the result.
func (s *simulation) run(ctx context.Context, c *cli.Console, flags *pflag.FlagSet) error {
	base, err := s.base(ctx, c, flags)
	if err != nil {
		return err
	}
	begun := time.Now()
	base.Progress = func(share float64) {
		if cli.IsTerminal(c.Stderr) && time.Since(begun) > 2*time.Second {
			_, _ = fmt.Fprintf(c.Stderr, "%3.0f %%\r", 100*share)
		}
	}
	if s.compare {
		rows, err := compare(ctx, base, s.price)
		if err != nil {
			return err
		}
		return s.printRows(c.Stdout, rows)
	}
	picture := &plot{length: max(base.Length, base.Arrivals[len(base.Arrivals)-1]+policy.AfterLast)}
	if s.plot != "" {
		base.Watch = picture.watch
	}
	result, err := base.Run(ctx)
	if err != nil {
		return err
	}
	if s.plot != "" {
		title := fmt.Sprintf("%d requests, %.1f %% found a token; %.3f bought per token served",
			result.Requests, 100*result.HitRate, result.BoughtPerServed)
		err := os.WriteFile(s.plot, []byte(picture.svg(title)), 0o644) //nolint:gosec // G306: the picture is not secret
		if err != nil {
			return fmt.Errorf("writing the plot: %w", err)
		}
	}
	spent := newCost(result, s.price)
	if s.json {
		return printJSON(c.Stdout, struct {
			policy.Result
			*Cost
		}{result, spent})
	}
	return s.printResult(c.Stdout, result, spent)
}

func (s *simulation) base(ctx context.Context, c *cli.Console,
	flags *pflag.FlagSet) (base policy.Simulation, err error) {
	base = policy.Simulation{Solves: s.solves, Concurrency: s.concurrency, Seed: s.seed}
	if base.Params, err = s.fill(c, flags); err != nil {
		return base, err
	}
	if err := s.validate(); err != nil {
		return base, err
	}
	base.Arrivals, base.Start, err = s.load(ctx)
	if err == nil && len(base.Arrivals) == 0 {
		err = errors.New("the demand has no request")
	}
	if s.demand != "" || s.trace != "" && flags.Changed("length") { // else to the last arrival
		base.Length = s.length.Seconds()
	}
	return base, err
}

// fill takes the settings from the target, if one is given, and then from the flags. It returns the parameters of the
// policy.
func (s *simulation) fill(c *cli.Console, flags *pflag.FlagSet) (policy.Params, error) {
	given := map[string]string{}
	flags.Visit(func(f *pflag.Flag) { given[f.Name] = f.Value.String() })
	t := targets.Target{Lifetime: 120 * time.Second, Margin: 40 * time.Second, Refill: targets.RefillFixed,
		HitRate: targets.DefaultHitRate, MissCost: targets.DefaultMissCost}
	// As in the daemon, the provider's poll times determine the assumed lead time before the first
	// solve.
	p := targets.Provider{Protocol: targets.ProtocolInPHP}
	t.Identity.Type = captcha.RecaptchaV2
	switch {
	case s.target != "":
		set, err := reload.NewFile(s.config, c.Lookup, slog.New(slog.DiscardHandler)).Load()
		if err != nil {
			return policy.Params{}, err
		}
		i := slices.IndexFunc(set.Targets, func(t targets.Target) bool { return t.Name == s.target })
		if i < 0 {
			return policy.Params{}, fmt.Errorf("%s has no target %q", s.config, s.target)
		}
		t, s.currency = set.Targets[i], set.Currency
		if len(set.Providers) > 0 {
			p = set.Providers[0]
		}
	case given["depth"] == "":
		return policy.Params{}, cli.UsageError("needs --target, or at least --depth")
	}
	s.settings, s.price = t, max(0, perPrice*p.Price.For(t.Identity.Type))
	for flag, value := range given {
		_ = flags.Set(flag, value) // the flag had this value
	}
	firstPoll, interval := provider.Pace(p, t.Identity.Type)
	return refill.Params(&s.settings, firstPoll, interval), nil
}

// validate rejects flags outside the ranges of pools.yaml.
func (s *simulation) validate() error {
	t := &s.settings
	for _, rule := range []struct {
		holds bool
		text  string
	}{
		{t.Refill == targets.RefillFixed || t.Refill == targets.RefillAdaptive, "--refill is fixed or adaptive"},
		{t.Lifetime >= time.Second && t.Lifetime <= 24*time.Hour, "--lifetime is from 1s to 24h"},
		{t.Margin >= 0 && t.Margin < t.Lifetime, "--margin is from 0s to below the lifetime"},
		{t.Depth >= 0 && t.Depth <= targets.MostDepth, "--depth is from 0 to 10000"},
		{t.Min >= 0 && t.Min <= t.Depth, "--min is from 0 to the depth"},
		{t.HitRate >= 0.5 && t.HitRate <= 0.9999, "--hit-rate is from 0.5 to 0.9999"},
		{t.MissCost >= 0.1 && t.MissCost <= targets.MostMissCost, "--miss-cost is from 0.1 to 1000"},
		{t.IdleAfter >= 0, "--idle-after is not below 0s"},
		{s.solves.Median >= time.Millisecond && s.solves.Median <= time.Hour, "--lead is from 1ms to 1h"},
		{s.solves.Sigma >= 0 && s.solves.Sigma <= 5, "--spread is from 0 to 5"},
		{s.solves.Fail >= 0 && s.solves.Fail <= 1, "--fail is a share from 0 to 1"},
		{s.concurrency >= 1 && s.concurrency <= 10_000, "--concurrency is from 1 to 10000"},
		{s.price >= 0 && s.price <= 1e6, "--price is what 1000 solves cost, a number from 0 to 1000000"},
		{s.length > 0 && s.length <= mostLength, "--length is above 0s and up to a year, 8784h"},
	} {
		if !rule.holds {
			return cli.UsageError(rule.text)
		}
	}
	return nil
}

// load returns the arrivals, and the time of second 0 if it is known.
func (s *simulation) load(ctx context.Context) (arrivals []float64, start time.Time, err error) {
	switch {
	case s.demand != "":
		if arrivals, err = policy.Demand(s.demand, s.length.Seconds(), s.seed); err != nil {
			err = cli.UsageError("--demand: " + err.Error())
		}
		return arrivals, start, err
	case s.history != "":
		daemon, err := s.daemon()
		if err != nil {
			return nil, start, err
		}
		return fromHistory(ctx, daemon, s.history, s.target, s.length)
	}
	file, err := os.Open(s.trace)
	if err != nil {
		return nil, start, fmt.Errorf("reading the trace: %w", err)
	}
	arrivals, err = policy.ReadTrace(file)
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, start, fmt.Errorf("%s: %w", s.trace, err)
	}
	return arrivals, start, nil
}

// text formats an amount of money for people.
func (s *simulation) text(amount float64) string { return s.currency.With(cli.Amount(amount)) }

func (s *simulation) printResult(w io.Writer, r policy.Result, spent *Cost) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, values ...any) { _, _ = fmt.Fprintf(table, name+"\t"+format+"\n", values...) }
	row("requests", "%d", r.Requests)
	row("hits", "%d (%.2f %%)", r.Hits, 100*r.HitRate)
	row("misses", "%d", r.Misses)
	row("bought", "%d (%.3f per token served)", r.Bought, r.BoughtPerServed)
	if spent != nil {
		row("spent", "%s (%s a day)", s.text(spent.Spent), s.text(spent.PerDay))
	}
	row("expired", "%d (%.3f per request)", r.Expired, r.WastePerRequest)
	row("failed solves", "%d", r.Failed)
	row("peak", "%d orders, %d tokens and orders", r.PeakInFlight, r.PeakHeld)
	return table.Flush()
}

func printJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}

func (s *simulation) printRows(w io.Writer, rows []Run) error {
	if s.json {
		return printJSON(w, map[string]any{"runs": rows})
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	head := "refill\tdepth\tmiss_cost\thits\twaste/request\tbought/served\tmisses\tpeak\t"
	if rows[0].Cost != nil {
		head += "spent/day\t"
	}
	_, _ = fmt.Fprintln(table, head)
	for _, r := range rows {
		price, spent := "-", ""
		if r.Refill == string(targets.RefillAdaptive) {
			price = fmt.Sprintf("%g", r.MissCost)
		}
		if r.Cost != nil {
			spent = s.text(r.PerDay) + "\t"
		}
		_, _ = fmt.Fprintf(table, "%s\t%d\t%s\t%.2f %%\t%.3f\t%.3f\t%d\t%d\t%s\n", r.Refill, r.Depth, price,
			100*r.HitRate, r.WastePerRequest, r.BoughtPerServed, r.Misses, r.PeakHeld, spent)
	}
	return table.Flush()
}
