package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"poold/internal/backend"
	"poold/internal/cli"
	"poold/internal/history/dynamostore"
	"poold/internal/targets"
	"poold/internal/targets/reload"
)

func newHistoryInit(c *cli.Console) *cobra.Command {
	command := &cobra.Command{
		Use:   "init",
		Short: "prepare the store of the history",
		Long: "Prepares the store of the history that the file names: DynamoDB's table, or PostgreSQL's tables. The section\n" +
			"dedup uses the same tables in its own database. You may repeat the command: it makes tables that were dropped\n" +
			"and keeps all other tables. If DynamoDB's table differs, the error names the differences.",
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
	log := slog.New(slog.DiscardHandler)
	set, err := reload.NewFile(config, c.Lookup, log).Load()
	if err != nil {
		return err
	}
	done := ""
	if set.History.Backend == targets.HistoryDynamoDB {
		table, err := dynamostore.Open(ctx, backend.TableOptions(set.History))
		if err == nil {
			defer table.Close()
			err = table.Init(ctx)
		}
		if err != nil {
			return fmt.Errorf("history: %w", err)
		}
		done = "the table " + set.History.Table + " is ready\n"
	}
	for _, d := range backend.Databases(set) {
		db, err := d.Open(log) //nolint:contextcheck // Open does not connect
		if err != nil {
			return err
		}
		defer db.Close()
		if err := db.Migrate(ctx); err != nil {
			return fmt.Errorf("%s: %w", d.Key, err)
		}
		done += "the tables of " + d.Key + " are ready\n"
	}
	if done == "" {
		done = "there is nothing to prepare for the backend " + string(set.History.Backend)
	}
	return c.Print(done)
}
