package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"poold/internal/history/dynamostore"
	"poold/internal/targets"
)

// initHistory prepares where the file wants the history kept. It may be called again: what
// is there stays, and what is there and differs is an error that names the differences.
func initHistory(ctx context.Context, c *command) error {
	flags := newFlags(c)
	config := configFlag(flags, c)
	stream := flags.Bool("stream", false, "DynamoDB: with a stream of new images, for functions of your own")
	c.word = "init"
	if _, err := c.parse(flags, 1); err != nil {
		return err
	}
	log := slog.New(slog.DiscardHandler)
	set, err := targets.NewFile(*config, c.lookup, log).Load(ctx)
	if err != nil {
		return err
	}
	if *stream && set.History.Backend != targets.HistoryDynamoDB {
		return usageError{"--stream is of the backend dynamodb, and the history of " + *config + " has " + string(set.History.Backend)}
	}
	done := "nothing is to be prepared for the backend " + string(set.History.Backend)
	switch set.History.Backend {
	case targets.HistoryDynamoDB:
		table, err := dynamostore.Open(ctx, tableOptions(set.History))
		if err != nil {
			return fmt.Errorf("history: %w", err)
		}
		defer table.Close()
		if err := table.Init(ctx, *stream); err != nil {
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
