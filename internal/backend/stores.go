package backend

import (
	"fmt"
	"log/slog"

	"poold/internal/captcha"
	"poold/internal/history/dynamostore"
	"poold/internal/postgres"
	"poold/internal/targets"
)

// Database describes a PostgreSQL database that pools.yaml names.
type Database struct {
	Key string // the key in pools.yaml that holds the address, such as "history.url"
	URL captcha.Secret
}

// Databases lists the PostgreSQL databases in the file.
func Databases(set *targets.Set) []Database {
	var all []Database
	if set.Dedup.Backend == targets.DedupPostgres {
		all = append(all, Database{"dedup.url", set.Dedup.URL})
	}
	if set.History.Backend == targets.HistoryPostgres {
		all = append(all, Database{"history.url", set.History.URL})
	}
	return all
}

// Open returns a client of the database. The client connects when it is first used.
func (d Database) Open(log *slog.Logger) (*postgres.DB, error) {
	db, err := postgres.Open(d.URL.Reveal(), postgres.Options{Log: log})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.Key, err)
	}
	return db, nil
}

// TableOptions converts the section history to the options of the DynamoDB table.
func TableOptions(wanted targets.History) dynamostore.Options {
	return dynamostore.Options{Table: wanted.Table, Endpoint: wanted.Endpoint, Region: wanted.Region, Keep: wanted.Keep, KeepAudit: wanted.Audit, Active: wanted.ActiveItems}
}
