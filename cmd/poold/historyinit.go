package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"poold/internal/captcha"
	"poold/internal/history/dynamostore"
	"poold/internal/postgres"
	"poold/internal/targets"
	"poold/internal/targets/reload"
)

// newHistoryInit is `poold history init`.
func newHistoryInit(c *console) *cobra.Command {
	command := &cobra.Command{
		Use:   "init",
		Short: "prepare the place that the file wants the history kept in",
		Long: "Prepares the place that the file wants the history kept in: DynamoDB's table, PostgreSQL's tables. The section\n" +
			"dedup uses the same tables in its own database. The command may be repeated: it makes tables that were dropped\n" +
			"and keeps all others. A table of DynamoDB that differs is an error that names the differences.",
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
	set, err := reload.NewFile(config, c.lookup, log).Load(ctx)
	if err != nil {
		return err
	}
	if stream && set.History.Backend != targets.HistoryDynamoDB {
		return usageError{"--stream is of the backend dynamodb, and the history of " + config + " has " + string(set.History.Backend)}
	}
	done := "nothing is to be prepared for the backend " + string(set.History.Backend)
	if set.History.Backend == targets.HistoryDynamoDB {
		table, err := dynamostore.Open(ctx, tableOptions(set.History))
		if err != nil {
			return fmt.Errorf("history: %w", err)
		}
		defer table.Close()
		if err := table.Init(ctx, stream); err != nil {
			return fmt.Errorf("history: %w", err)
		}
		done = "the table " + set.History.Table + " is ready"
	}
	databases := databasesOf(set)
	for _, d := range databases {
		if err := d.prepare(ctx, log); err != nil {
			return err
		}
	}
	if len(databases) > 0 && set.History.Backend == targets.HistoryDynamoDB {
		done += ", and so are the tables in PostgreSQL"
	} else if len(databases) > 0 {
		done = "the tables are ready"
	}
	_, err = io.WriteString(c.stdout, done+"\n")
	return err
}

// database is a PostgreSQL database that the file uses.
type database struct {
	key    string // of its address in the file
	url    captcha.Secret
	prefix string // of the installation
}

// databasesOf lists the databases that the file uses.
func databasesOf(set *targets.Set) []database {
	var all []database
	if set.Dedup.Backend == targets.DedupPostgres {
		all = append(all, database{"dedup.url", set.Dedup.URL, set.Redis.Prefix})
	}
	if set.History.Backend == targets.HistoryPostgres {
		all = append(all, database{"history.url", set.History.URL, set.Redis.Prefix})
	}
	return all
}

// open connects to nothing yet.
func (d database) open(log *slog.Logger) (*postgres.DB, error) {
	db, err := postgres.Open(d.url.Reveal(), postgres.Options{Log: log, Prefix: d.prefix})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.key, err)
	}
	return db, nil
}

// prepare makes the tables that the database lacks.
func (d database) prepare(ctx context.Context, log *slog.Logger) error {
	db, err := d.open(log) //nolint:contextcheck // it connects to nothing
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.Migrate(ctx); err != nil {
		return fmt.Errorf("%s: %w", d.key, err)
	}
	return nil
}
