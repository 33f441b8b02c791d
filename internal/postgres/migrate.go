package postgres

import (
	"context"
	"embed"
	"errors"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
)

// migrateLimit limits the duration of a migration. It includes the wait for a migration by another
// replica.
const migrateLimit = 30 * time.Second

// lockMigrate is the number of the advisory lock that a migration holds.
const lockMigrate = 0x706f6f6c64 // "poold"

//go:embed sql/*.sql
var files embed.FS

// newest is the number of the last file in sql/, and tables lists the tables that the files create.
const newest = 3

var tables = []string{"captcha_audit", "captcha_audit_figures", "captcha_cache", "captcha_figures", "captcha_savings", "captcha_solves"}

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
		err = db.migrate(ctx, conn)
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

// migrate applies the missing files. If there is nothing to do, migrate ends within the time limit of
// a call.
func (db *DB) migrate(ctx context.Context, conn *pgxpool.Conn) error {
	pending := false
	if err := within(ctx, db.limit, func(ctx context.Context) error {
		return transact(ctx, conn, func(ctx context.Context, tx Tx) error {
			version, missing, err := readSchema(ctx, tx)
			pending = version < newest || missing != ""
			return err
		})
	}); err != nil || !pending {
		return err
	}
	return within(ctx, migrateLimit, func(ctx context.Context) error {
		return transact(ctx, conn, db.applyFiles)
	})
}

// readSchema returns the number of the last applied file and the name of a missing table; "" = none.
// It returns an ErrNewer if a newer program has changed the schema.
func readSchema(ctx context.Context, tx Tx) (version int, missing string, err error) {
	var made bool // to_regclass is not used, because it caches the absence of a table until the transaction ends
	if err := tx.First(ctx, []any{&made}, "select exists (select from pg_class where relname = 'poold_schema' and pg_table_is_visible(oid))"); err != nil || !made {
		return 0, "", err
	}
	err = tx.First(ctx, []any{&version, &missing}, `select (select coalesce(max(version_id), 0)::integer from poold_schema),
		coalesce((select min(name) from unnest($1::text[]) name where not exists (select from pg_class where relname = name and pg_table_is_visible(oid))), '')`, tables)
	if version > newest {
		err = newer(version, newest)
	}
	return version, missing, err
}

// applyFiles lets goose apply the missing files on another connection, while tx holds the lock of all
// replicas. The lock of goose belongs to a session, so a pooler could release it on another
// connection. If a table is missing, all files are applied again: they change nothing that exists.
func (db *DB) applyFiles(ctx context.Context, tx Tx) error {
	if _, err := tx.Exec(ctx, "select pg_advisory_xact_lock($1)", int64(lockMigrate)); err != nil {
		return err
	}
	version, missing, err := readSchema(ctx, tx)
	if err != nil {
		return err
	}
	on := stdlib.OpenDBFromPool(db.pool)
	defer func() { _ = on.Close() }()
	if version > 0 && missing != "" {
		// tx has read poold_schema, so a statement that locks the whole table would wait for tx.
		if _, err := on.ExecContext(ctx, "delete from poold_schema where version_id > 0"); err != nil {
			return translate(err)
		}
	}
	folder, _ := fs.Sub(files, "sql") // the folder is embedded
	steps, err := goose.NewProvider(goose.DialectPostgres, on, folder, goose.WithTableName("poold_schema"))
	if err != nil {
		return err
	}
	_, err = steps.Up(ctx)
	return translate(err)
}
