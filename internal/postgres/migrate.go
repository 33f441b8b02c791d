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

// migrateLimit limits the time for a change of the schema, including the wait for another replica's change.
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
		text, _ := files.ReadFile(name) // it is in the program
		all[i] = step{name, string(text)}
	}
	return all
}

// steps returns the steps, in which {prefix} is replaced by this installation's prefix.
func (db *DB) steps() []step {
	all := steps()
	for i := range all {
		all[i].sql = strings.ReplaceAll(all[i].sql, prefixHere, strings.ReplaceAll(db.prefix, "'", "''"))
	}
	return all
}

// Migrate brings the schema to this program's version. Until Migrate or Run has done so, every call fails. If Migrate
// returns an ErrDown, Run can still succeed later. If it returns an ErrNewer, this program cannot use the database.
func (db *DB) Migrate(ctx context.Context) error {
	conn, err := db.usable(ctx)
	if err != nil {
		return err
	}
	conn.Release()
	return nil
}

// usable acquires a connection and brings the schema up to date. Until its first success it stores its error in
// db.fault, and all calls return this error. After the first success it does not, for two reasons: one broken connection
// does not affect the other connections, and after a newer program has changed the schema, the replicas of the older
// version continue until they are replaced.
func (db *DB) usable(ctx context.Context) (*pgxpool.Conn, error) {
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

// unusable returns an ErrDown with the reason of the argument err. All calls return it while the schema cannot be used.
func unusable(err error) *fault {
	var known *fault
	if errors.As(err, &known) {
		return &fault{reason: known.reason, down: true}
	}
	return &fault{reason: err.Error(), down: true}
}

// migrate applies missing steps and creates dropped tables again. If there is nothing to do, it ends within the limit of
// a call.
func (db *DB) migrate(ctx context.Context, on beginner, all []step) error {
	for {
		var version, lost int
		if err := within(ctx, db.limit, func(ctx context.Context) error {
			return transact(ctx, on, func(ctx context.Context, tx Tx) (err error) {
				if version, err = applied(ctx, tx); err != nil || version > len(all) {
					return err
				}
				again, err := dropped(ctx, tx, all[:version])
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

// applied returns the number of the last applied step.
func applied(ctx context.Context, tx Tx) (version int, err error) {
	var made bool // to_regclass is not used, because it caches the absence of a table until the transaction ends
	if err := tx.First(ctx, []any{&made}, "select exists (select from pg_class where relname = 'poold_schema' and pg_table_is_visible(oid))"); err != nil || !made {
		return 0, err
	}
	err = tx.First(ctx, []any{&version}, "select coalesce(max(version), 0) from poold_schema")
	return version, err
}

// advance creates dropped tables again and applies the next step, unless another replica has already done so.
func advance(ctx context.Context, tx Tx, all []step) error {
	if _, err := tx.Exec(ctx, "select pg_advisory_xact_lock($1)", int64(lockMigrate)); err != nil {
		return err
	}
	version, err := applied(ctx, tx)
	if err != nil || version > len(all) {
		return err
	}
	again, err := dropped(ctx, tx, all[:version])
	if err != nil {
		return err
	}
	for _, s := range again {
		if _, err := tx.Exec(ctx, s.sql); err != nil {
			return named(err, "the table "+s.table)
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
		return named(err, all[version].name)
	}
	_, err = tx.Exec(ctx, "insert into poold_schema (version, applied_at) values ($1, clock_timestamp())", version+1)
	return err
}

// named adds the name of a file or table to an error, because the server refused a statement of it.
func named(err error, name string) error {
	var f *fault
	if !errors.As(err, &f) {
		return err
	}
	return &fault{reason: name + ": " + f.reason, down: f.down}
}
