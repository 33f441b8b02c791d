package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"poold/internal/backend"
	"poold/internal/cli"
	"poold/internal/targets/reload"
)

func newHistoryInit(c *cli.Console) *cobra.Command {
	command := &cobra.Command{
		Use:   "init",
		Short: "prepare the store of the history",
		Long: "Prepares the store of the history that the file names: DynamoDB's table, or PostgreSQL's tables. The " +
			"section\ndedup uses the same tables in its own database. You may repeat the command: it makes tables that " +
			"were dropped\nand keeps all other tables. If DynamoDB's table differs, the error names its shape.",
		Example: "  poold history init --config pools.yaml",
		Args:    cobra.NoArgs,
	}
	config := cli.ConfigFlag(command, c)
	command.RunE = func(command *cobra.Command, _ []string) error {
		return initHistory(command.Context(), c, *config)
	}
	return command
}

func initHistory(ctx context.Context, c *cli.Console, config string) error {
	set, err := reload.NewFile(config, c.Lookup, slog.New(slog.DiscardHandler)).Load()
	if err != nil {
		return err
	}
	stores, err := backend.Stores(ctx, set, slog.New(slog.DiscardHandler))
	for _, s := range stores {
		defer s.Close()
	}
	if err != nil {
		return err
	}
	done := ""
	for _, s := range stores {
		if err := s.Init(ctx); err != nil {
			return fmt.Errorf("%s: %w", s.Key, err)
		}
		done += s.Ready + "\n"
	}
	if done == "" {
		done = "there is nothing to prepare for the backend " + string(set.History.Backend)
	}
	return c.Print(done)
}
