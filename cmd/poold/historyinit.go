package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"poold/internal/history/dynamostore"
	"poold/internal/targets"
)

// newHistoryInit is `poold history init`.
func newHistoryInit(c *console) *cobra.Command {
	command := &cobra.Command{
		Use:   "init",
		Short: "prepare the place that the file wants the history kept in",
		Long: "Prepares the place that the file wants the history kept in: DynamoDB's table, PostgreSQL's tables. It may be\n" +
			"called again: what is there stays, and what is there and differs is an error that names the differences.",
		Example: "  poold history init --config pools.yaml",
		Args:    words(0),
	}
	config := configFlag(command, c)
	stream := command.Flags().Bool("stream", false, "DynamoDB: with a stream of new images, for functions of your own")
	command.RunE = func(command *cobra.Command, _ []string) error {
		return initHistory(command.Context(), c, *config, *stream)
	}
	return command
}

func initHistory(ctx context.Context, c *console, config string, stream bool) error {
	log := slog.New(slog.DiscardHandler)
	set, err := targets.NewFile(config, c.lookup, log).Load(ctx)
	if err != nil {
		return err
	}
	if stream && set.History.Backend != targets.HistoryDynamoDB {
		return usageError{"--stream is of the backend dynamodb, and the history of " + config + " has " + string(set.History.Backend)}
	}
	done := "nothing is to be prepared for the backend " + string(set.History.Backend)
	switch set.History.Backend {
	case targets.HistoryDynamoDB:
		table, err := dynamostore.Open(ctx, tableOptions(set.History))
		if err != nil {
			return fmt.Errorf("history: %w", err)
		}
		defer table.Close()
		if err := table.Init(ctx, stream); err != nil {
			return fmt.Errorf("history: %w", err)
		}
		done = "the table " + set.History.Table + " is ready"
	case targets.HistoryPostgres:
		db, err := openPostgres(ctx, "history.url", set.History.URL, log)
		if err != nil {
			return err
		}
		defer db.Close()
		if err := db.Migrate(ctx); err != nil {
			return fmt.Errorf("history.url: %w", err)
		}
		done = "the tables are ready"
	}
	_, err = io.WriteString(c.stdout, done+"\n")
	return err
}
