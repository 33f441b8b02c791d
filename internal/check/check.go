package check

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

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
		Example: "  poold check --config pools.yaml\n  poold check --live\n  poold check --diff --url http://127.0.0.1:8080",
		Args:    cli.Words(0),
	}
	var with options
	config := cli.ConfigFlag(command, c)
	command.Flags().BoolVar(&with.live, "live", false, "also try Redis, PostgreSQL, DynamoDB and each provider's key, buying and changing nothing")
	command.Flags().BoolVar(&with.diff, "diff", false, "also list what applying the file to the running daemon would change")
	with.connect = cli.ClientFlags(command, c)
	command.RunE = func(command *cobra.Command, _ []string) error {
		return check(command.Context(), c, *config, with)
	}
	return command
}

// options selects the checks beyond the validation of the file.
type options struct {
	live, diff bool
	connect    func() (*cli.Client, error) // returns a client of the running daemon, for --diff
}

// check validates the file and prints one line for each error, warning and fact.
func check(ctx context.Context, c *cli.Console, config string, with options) error {
	set, err := reload.NewFile(config, c.Lookup, slog.New(slog.DiscardHandler)).Load(ctx)
	var problems targets.Problems
	if errors.As(err, &problems) {
		if _, err := io.WriteString(c.Stdout, classed("error", problems)); err != nil {
			return err
		}
		return fmt.Errorf("problems in %s: %d", config, len(problems))
	}
	if err != nil {
		return err
	}
	var text strings.Builder
	text.WriteString(classed("warning", set.Warnings))
	fmt.Fprintf(&text, "note: %s is valid; targets: %d, providers: %d\n", config, len(set.Targets), len(set.Providers))
	for i := range set.Targets {
		text.WriteString(targetLine(set, &set.Targets[i]))
	}
	if _, err := io.WriteString(c.Stdout, text.String()); err != nil {
		return err
	}
	if with.diff {
		daemon, err := with.connect()
		if err != nil {
			return err
		}
		if err := diff(ctx, c.Stdout, daemon, set); err != nil {
			return err
		}
	}
	if !with.live {
		return nil
	}
	faults, err := checkLive(ctx, c.Stdout, set)
	if err == nil && faults > 0 {
		err = fmt.Errorf("live checks failed: %d", faults)
	}
	return err
}

// classed formats one line for each problem. The line begins with the class, such as "error".
func classed(class string, problems []targets.Problem) string {
	var lines strings.Builder
	for _, p := range problems {
		p.Text = class + ": " + p.Text
		lines.WriteString(p.String() + "\n")
	}
	return lines.String()
}
