package check

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"poold/internal/backend"
	"poold/internal/cli"
	"poold/internal/targets"
	"poold/internal/targets/reload"
)

// Command is `poold check`.
func Command(c *cli.Console) *cobra.Command {
	command := &cobra.Command{
		Use:   "check",
		Short: "validate pools.yaml",
		Long: "Validates the file and prints every problem with its line, and what the file can buy at most.\n" +
			"Exit 0 if it can be used, 1 if it cannot.",
		Example: "  poold check --config pools.yaml\n  poold check --live\n  poold check --diff --url http://127.0.0.1:8080",
		Args:    cli.Words(0),
	}
	var with options
	config := cli.ConfigFlag(command, c)
	command.Flags().BoolVar(&with.live, "live", false, "also try Redis, PostgreSQL, DynamoDB and each provider's key, buying and changing nothing")
	command.Flags().BoolVar(&with.diff, "diff", false, "also say what applying the file to the running daemon would change")
	with.connect = cli.ClientFlags(command, c)
	command.RunE = func(command *cobra.Command, _ []string) error {
		return check(command.Context(), c, *config, with)
	}
	return command
}

// options are the checks beyond the file.
type options struct {
	live, diff bool
	connect    func() (*cli.Client, error) // to the daemon for diff
}

// check validates the file and prints every problem with its line.
func check(ctx context.Context, c *cli.Console, config string, with options) error {
	set, err := reload.NewFile(config, c.Lookup, slog.New(slog.DiscardHandler)).Load(ctx)
	var problems targets.Problems
	if errors.As(err, &problems) {
		if _, err := fmt.Fprintln(c.Stdout, problems); err != nil {
			return err
		}
		return fmt.Errorf("problems in %s: %d", config, len(problems))
	}
	if err != nil {
		return err
	}
	if set.Server.TLS.Cert != "" {
		if _, err := backend.LoadCertificate(set.Server.TLS); err != nil {
			return err
		}
	}
	var text strings.Builder
	for _, warning := range set.Warnings {
		text.WriteString(warning.String() + " (allowed)\n")
	}
	fmt.Fprintf(&text, "%s is valid; targets: %d, providers: %d\n", config, len(set.Targets), len(set.Providers))
	text.WriteString(SpendingOf(set).text(set.Simulated()))
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
		err = fmt.Errorf("tried live, and wrong: %d", faults)
	}
	return err
}
