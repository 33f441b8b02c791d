package check

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
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
	p := &printer{Console: c}
	command.Flags().BoolVar(&p.json, "json", false, "print each line as a JSON object with class, file, line and text")
	live := command.Flags().Bool("live", false,
		"also try Redis, PostgreSQL, DynamoDB and each provider's key, buying and changing nothing")
	command.RunE = func(command *cobra.Command, _ []string) error {
		ctx := command.Context()
		set, err := load(p, *config)
		if err != nil {
			return err
		}
		// the stores' client libraries check rules that package targets does not check
		stores, err := backend.Stores(ctx, set, slog.New(slog.DiscardHandler))
		for _, s := range stores {
			defer s.Close()
		}
		if err == nil {
			err = p.print(describe(set, *config)...)
		}
		if err != nil || !*live {
			return err
		}
		return checkLive(ctx, p, set, stores)
	}
	return command
}

// finding is one line of the output.
type finding struct {
	Class string `json:"class"` // error, warning, note or ok
	targets.Problem
}

// printer prints findings as text or as JSON.
type printer struct {
	*cli.Console

	json bool
}

func (p *printer) print(findings ...finding) error {
	for _, f := range findings {
		line := targets.Problem{File: f.File, Line: f.Line, Text: f.Class + ": " + f.Text}.String()
		if p.json {
			text, _ := json.Marshal(f) // of texts and a number: no error is possible
			line = string(text)
		}
		if err := p.Print(line); err != nil {
			return err
		}
	}
	return nil
}

// load reads the file, or prints one line for each problem.
func load(p *printer, config string) (*targets.Set, error) {
	set, err := reload.NewFile(config, p.Lookup, slog.New(slog.DiscardHandler)).Load()
	if problems := (targets.Problems)(nil); errors.As(err, &problems) {
		err = cmp.Or(p.print(classed("error", problems)...), fmt.Errorf("problems in %s: %d", config, len(problems)))
	}
	return set, err
}

// describe returns each warning and fact about a valid file.
func describe(set *targets.Set, config string) []finding {
	findings := append(classed("warning", set.Warnings),
		finding{"note", targets.Problem{Text: fmt.Sprintf("%s is valid; targets: %d, providers: %d", config, len(set.Targets),
			len(set.Providers))}})
	for i := range set.Targets {
		class, text := targetLine(set, &set.Targets[i])
		findings = append(findings, finding{class, targets.Problem{Text: text}})
	}
	return findings
}

func classed(class string, problems []targets.Problem) (findings []finding) {
	for _, p := range problems {
		findings = append(findings, finding{class, p})
	}
	return findings
}

// targetLine describes a target: its type, its stock, the daily cost of the stock without requests,
// and the daily limit of its purchases. The line is a warning if the stock exceeds the limit, or if
// the limit or the price is missing.
func targetLine(set *targets.Set, t *targets.Target) (class, text string) {
	text = fmt.Sprintf("%s: %s, %s, depth %d; ", t.Name, t.Identity.Type, t.Refill, t.Depth)
	if halted := t.Halted(); halted != "" {
		return "note", text + "nothing is bought: " + halted
	}
	kept := t.Depth // number of tokens that are replaced at their expiry without requests
	switch {
	case t.Refill == targets.RefillAdaptive:
		kept = t.Min
	case t.IdleAfter > 0:
		kept = 0
	}
	idle := float64(kept) * float64(24*time.Hour) / float64(t.Usable()) // solves a day

	price, known := 0.0, true // of one solve at the most expensive provider
	for _, p := range set.Providers {
		one := p.Price.For(t.Identity.Type)
		price, known = max(price, one), known && one >= 0
	}
	const unlimited = math.MaxInt
	most := unlimited // solves a day
	for _, b := range []targets.Budget{t.Budget, set.Owners[t.Owner].Budget, set.Budget} {
		most = min(most, cmp.Or(24*b.PerHour, unlimited), cmp.Or(b.PerDay, unlimited))
		for _, money := range []float64{b.MoneyPerDay, b.MoneyPerMonth} {
			if money > 0 && price > 0 {
				most = min(most, int(money/price))
			}
		}
	}
	daily := func(solves float64) string {
		text := fmt.Sprintf("%.0f solves a day", solves)
		if known {
			text += " for " + set.Currency.With(cli.Amount(solves*price))
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
	text += "idle " + daily(idle) + limit
	switch class = "warning"; {
	case set.Simulated(): // simulated tokens cost nothing
		return "note", text
	case warnings == "":
		class = "note"
	}
	if !known {
		warnings += "; some provider has no price_per_1000 for this type"
	}
	return class, text + warnings
}
