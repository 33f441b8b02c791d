package backend

import (
	"crypto/tls"
	"fmt"
	"log/slog"

	"poold/internal/captcha"
	"poold/internal/history/dynamostore"
	"poold/internal/postgres"
	"poold/internal/targets"
)

// Database is a PostgreSQL database that the file uses.
type Database struct {
	Key    string // of its address in the file
	URL    captcha.Secret
	Prefix string // of the installation
}

// Databases lists the databases that the file uses.
func Databases(set *targets.Set) []Database {
	var all []Database
	if set.Dedup.Backend == targets.DedupPostgres {
		all = append(all, Database{"dedup.url", set.Dedup.URL, set.Redis.Prefix})
	}
	if set.History.Backend == targets.HistoryPostgres {
		all = append(all, Database{"history.url", set.History.URL, set.Redis.Prefix})
	}
	return all
}

// Open returns a client that connects when it is first used.
func (d Database) Open(log *slog.Logger) (*postgres.DB, error) {
	db, err := postgres.Open(d.URL.Reveal(), postgres.Options{Log: log, Prefix: d.Prefix})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.Key, err)
	}
	return db, nil
}

// TableOptions returns the options of the history's table in DynamoDB.
func TableOptions(wanted targets.History) dynamostore.Options {
	return dynamostore.Options{Table: wanted.Table, Endpoint: wanted.Endpoint, Region: wanted.Region, Keep: wanted.Keep, KeepAudit: wanted.Audit}
}

// LoadCertificate reads the files of server.tls.
func LoadCertificate(files targets.TLS) (tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		return pair, fmt.Errorf("server.tls: %w", err)
	}
	return pair, nil
}
