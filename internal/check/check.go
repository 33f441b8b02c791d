package check

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"poold/internal/backend"
	"poold/internal/cli"
	"poold/internal/targets"
	"poold/internal/targets/reload"
)

// Command returns the command `poold check`.
func Command(c *cli.Console) *cobra.Command {
	command := &cobra.Command{
		Use:   "check",
		Short: "validate pools.yaml",
		Long: "Validates the file. Prints an error line for each problem that makes it unusable, a warning for each value\n" +
			"that is allowed but unusual, and a note for each fact. One line for each target says what its stock costs a day\n" +
			"without requests, and which budget limits it. Exits with 0 if there is no error, else with 1.",
		Example: "  poold check --config pools.yaml\n  poold check --live",
		Args:    cobra.NoArgs,
	}
	config := cli.ConfigFlag(command, c)
	live := command.Flags().Bool("live", false, "also try Redis, PostgreSQL, DynamoDB and each provider's key, buying and changing nothing")
	command.RunE = func(command *cobra.Command, _ []string) error {
		ctx := command.Context()
		set, err := load(c, *config)
		if err != nil {
			return err
		}
		stores, err := backend.Stores(ctx, set, slog.New(slog.DiscardHandler)) // their libraries know rules that the file does not
		for _, s := range stores {
			defer s.Close()
		}
		if err == nil {
			err = c.Print(describe(set, *config))
		}
		if err != nil || !*live {
			return err
		}
		return checkLive(ctx, c, set, stores)
	}
	return command
}

// load reads the file, or prints one line for each problem.
func load(c *cli.Console, config string) (*targets.Set, error) {
	set, err := reload.NewFile(config, c.Lookup, slog.New(slog.DiscardHandler)).Load()
	if problems := (targets.Problems)(nil); errors.As(err, &problems) {
		err = cmp.Or(c.Print(classed("error", problems)), fmt.Errorf("problems in %s: %d", config, len(problems)))
	}
	return set, err
}

// describe returns one line for each warning and fact about a valid file. Each line begins with its class.
func describe(set *targets.Set, config string) string {
	text := classed("warning", set.Warnings)
	text += fmt.Sprintf("note: %s is valid; targets: %d, providers: %d\n", config, len(set.Targets), len(set.Providers))
	for i := range set.Targets {
		text += targetLine(set, &set.Targets[i]) + "\n"
	}
	return text
}

func classed(class string, problems []targets.Problem) string {
	var lines strings.Builder
	for _, p := range problems {
		p.Text = class + ": " + p.Text
		lines.WriteString(p.String() + "\n")
	}
	return lines.String()
}

// targetLine describes a target: its type, its stock, the daily cost of the stock without requests,
// and the daily limit of its purchases. The line is a warning if the stock exceeds the limit, or if
// there is no limit or no price.
func targetLine(set *targets.Set, t *targets.Target) string {
	text := fmt.Sprintf("%s: %s, %s, depth %d; ", t.Name, t.Identity.Type, t.Refill, t.Depth)
	if halted := t.Halted(); halted != "" {
		return "note: " + text + "nothing is bought: " + halted
	}
	kept := t.Depth // number of tokens that are replaced at their expiry without requests
	switch {
	case t.Refill == targets.RefillAdaptive:
		kept = t.Min
	case t.IdleAfter > 0:
		kept = 0
	}
	idle := float64(kept) * float64(24*time.Hour) / float64(t.Usable()) // solves a day
	const unlimited = math.MaxInt
	most := min(cmp.Or(24*t.Budget.PerHour, unlimited), cmp.Or(t.Budget.PerDay, unlimited), cmp.Or(set.Budget.PerDay, unlimited))
	price, known := 0.0, true // of one solve at the most expensive provider
	for _, p := range set.Providers {
		one := p.Price.For(t.Identity.Type)
		price, known = max(price, one), known && one >= 0
	}
	daily := func(solves float64) string {
		text := fmt.Sprintf("%.0f solves a day", solves)
		if known {
			text += " for " + set.Currency.With(fmt.Sprintf("%.2f", solves*price))
		}
		return text
	}
	warnings, limit := "", "; at most "+daily(float64(most))
	switch {
	case most == unlimited:
		warnings, limit = "; no budget limits it", ""
	case idle > float64(most):
		warnings, limit = "; the budget of "+daily(float64(most))+" is too small for that", ""
	}
	if !known {
		warnings += "; some provider has no price_per_1000 for this type"
	}
	text += "idle " + daily(idle) + limit
	if warnings == "" || set.Simulated() { // simulated tokens cost nothing
		return "note: " + text
	}
	return "warning: " + text + warnings
}
