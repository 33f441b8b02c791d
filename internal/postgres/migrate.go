package postgres

import (
	"context"
	"embed"
	"errors"
	"io/fs"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// migrateLimit limits the duration of a migration. It includes the wait for a migration by another
// replica.
const migrateLimit = 30 * time.Second

// lockMigrate is the number of the advisory lock that a migration holds.
const lockMigrate = 0x706f6f6c64 // "poold"

// prefixHere is the placeholder for Options.Prefix in the files in sql/.
const prefixHere = "{prefix}"

//go:embed sql/*.sql
var files embed.FS

// step is one change of the schema: a file in sql/.
type step struct{ name, sql string }

// steps returns the numbered files in sql/ in order. The first file has the number 1.
func steps() []step {
	names, _ := fs.Glob(files, "sql/*.sql") // sorted
	all := make([]step, len(names))
	for i, name := range names {
		text, _ := files.ReadFile(name) // the file is embedded, so reading it cannot fail
		all[i] = step{name, string(text)}
	}
	return all
}

// steps returns the steps with {prefix} replaced by this installation's prefix.
func (db *DB) steps() []step {
	all := steps()
	for i := range all {
		all[i].sql = strings.ReplaceAll(all[i].sql, prefixHere, strings.ReplaceAll(db.prefix, "'", "''"))
	}
	return all
}

// Migrate brings the schema to this program's version. Until Migrate or Run has succeeded, every call
// fails. If Migrate returns an ErrDown, Run can still succeed later. If Migrate returns an ErrNewer,
// this program cannot use the database.
func (db *DB) Migrate(ctx context.Context) error {
	conn, err := db.acquireMigrated(ctx)
	if err != nil {
		return err
	}
	conn.Release()
	return nil
}

// acquireMigrated acquires a connection and brings the schema up to date. Until its first success it
// stores its error in db.fault, and all calls return this error. It does not store later errors, for
// two reasons. First, a broken connection does not affect the other connections. Second, replicas of
// the older version keep working after a newer program has changed the schema, until they are replaced.
func (db *DB) acquireMigrated(ctx context.Context) (*pgxpool.Conn, error) {
	conn, err := db.connect(ctx)
	if err == nil {
		err = db.migrate(ctx, conn, db.steps())
		if err == nil || errors.Is(err, ErrNewer) && db.fault.Load() == nil {
			db.fault.Store(nil)
			return conn, nil
		}
		conn.Release()
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if known := db.fault.Load(); known != nil {
		db.fault.CompareAndSwap(known, unusable(err))
	}
	return nil, err
}

// unusable returns an ErrDown with the reason in err. While the schema cannot be used, all calls return
// this ErrDown.
func unusable(err error) *fault {
	var known *fault
	if errors.As(err, &known) {
		return &fault{reason: known.reason, down: true}
	}
	return &fault{reason: err.Error(), down: true}
}

// migrate applies missing steps and recreates dropped tables. If there is nothing to do, migrate ends
// within the time limit of a call.
func (db *DB) migrate(ctx context.Context, on beginner, all []step) error {
	for {
		var version, lost int
		if err := within(ctx, db.limit, func(ctx context.Context) error {
			return transact(ctx, on, func(ctx context.Context, tx Tx) (err error) {
				if version, err = lastApplied(ctx, tx); err != nil || version > len(all) {
					return err
				}
				again, err := droppedStatements(ctx, tx, all[:version])
				lost = len(again)
				return err
			})
		}); err != nil {
			return err
		}
		switch {
		case version > len(all):
			return newer(version, len(all))
		case version == len(all) && lost == 0:
			return nil
		}
		if err := within(ctx, migrateLimit, func(ctx context.Context) error {
			return transact(ctx, on, func(ctx context.Context, tx Tx) error { return advance(ctx, tx, all) })
		}); err != nil {
			return err
		}
	}
}

func lastApplied(ctx context.Context, tx Tx) (version int, err error) {
	var made bool // to_regclass is not used, because it caches the absence of a table until the transaction ends
	if err := tx.First(ctx, []any{&made}, "select exists (select from pg_class where relname = 'poold_schema' and pg_table_is_visible(oid))"); err != nil || !made {
		return 0, err
	}
	err = tx.First(ctx, []any{&version}, "select coalesce(max(version), 0) from poold_schema")
	return version, err
}

// advance recreates dropped tables and applies the next step, unless another replica has already done
// so.
func advance(ctx context.Context, tx Tx, all []step) error {
	if _, err := tx.Exec(ctx, "select pg_advisory_xact_lock($1)", int64(lockMigrate)); err != nil {
		return err
	}
	version, err := lastApplied(ctx, tx)
	if err != nil || version > len(all) {
		return err
	}
	again, err := droppedStatements(ctx, tx, all[:version])
	if err != nil {
		return err
	}
	for _, s := range again {
		if _, err := tx.Exec(ctx, s.sql); err != nil {
			return withName(err, "the table "+s.table)
		}
	}
	if version == len(all) {
		return nil
	}
	if version == 0 {
		if _, err := tx.Exec(ctx, "create table if not exists poold_schema (version integer primary key, applied_at timestamptz not null)"); err != nil {
			return err
		}
	}
	// Only the simple protocol accepts several statements in one call.
	if _, err := tx.Exec(ctx, all[version].sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		return withName(err, all[version].name)
	}
	_, err = tx.Exec(ctx, "insert into poold_schema (version, applied_at) values ($1, clock_timestamp())", version+1)
	return err
}

// withName adds to an error the name of the file or table whose statement the server refused.
func withName(err error, name string) error {
	var f *fault
	if !errors.As(err, &f) {
		return err
	}
	return &fault{reason: name + ": " + f.reason, down: f.down}
}
