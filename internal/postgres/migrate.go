package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

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
const newest = 2

var tables = []string{"captcha_cache", "captcha_days", "captcha_history"}

// Migrate brings the schema to this program's version. If it returns an ErrDown, Run can still succeed later. If it
// returns an ErrNewer, this program cannot use the database.
//
// A transaction holds an advisory lock against the other replicas, while goose applies the missing files on a second
// connection. The lock of goose itself belongs to a session, and a pooler could release it on another connection.
func (db *DB) Migrate(ctx context.Context) error {
	version, missing, err := db.readSchema(ctx)
	if err != nil || version == newest && missing == "" {
		return err
	}
	on := stdlib.OpenDBFromPool(db.pool)
	defer func() { _ = on.Close() }()
	folder, _ := fs.Sub(files, "sql") // the folder is embedded
	steps, err := goose.NewProvider(goose.DialectPostgres, on, folder, goose.WithTableName("poold_schema"))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, migrateLimit)
	defer cancel()
	return db.transact(ctx, func(ctx context.Context, tx Tx) error {
		_, err := tx.Exec(ctx, "select pg_advisory_xact_lock($1)", int64(lockMigrate))
		if err == nil && missing != "" { // all files again: they change nothing that exists
			_, err = on.ExecContext(ctx, "delete from poold_schema where version_id > 0")
		}
		if err == nil {
			_, err = steps.Up(ctx)
		}
		return translate(err)
	})
}

// readSchema returns the version of the schema, and the name of a missing table; "" = none. It returns an ErrNewer if a
// newer program has changed the schema.
func (db *DB) readSchema(ctx context.Context) (version int, missing string, err error) {
	err = db.Do(ctx, func(ctx context.Context, tx Tx) error {
		return tx.First(ctx, []any{&version, &missing}, `select
			(select coalesce(max(version_id), 0)::integer from poold_schema),
			coalesce((select min(name) from unnest($1::text[]) name where to_regclass(name) is null), '')`, tables)
	})
	if f := (*fault)(nil); errors.As(err, &f) && f.missing == "poold_schema" {
		return 0, "", nil
	}
	if version > newest {
		err = fmt.Errorf("%w: the database has version %d, this program knows %d: start a newer program",
			ErrNewer, version, newest)
	}
	return version, missing, err
}

// Try checks whether poold can use the database, and changes nothing. It returns the version of the server and the
// state of the schema. It returns an error if Migrate or a later call would fail: the server is away or read-only, the
// schema is newer, or the user lacks a right.
func (db *DB) Try(ctx context.Context) (found string, err error) {
	if err = db.probe(ctx); err != nil {
		return "", err
	}
	version, missing, err := db.readSchema(ctx)
	if err != nil {
		return "", err
	}
	server, makes, refused := "", false, "" // refused is a table on which the user lacks a right
	err = db.Do(ctx, func(ctx context.Context, tx Tx) error {
		return tx.First(ctx, []any{&server, &makes, &refused}, `select split_part(current_setting('server_version'), ' ', 1),
			coalesce(has_schema_privilege(current_schema(), 'create'), false),
			coalesce((select min(name) from unnest($1::text[]) name where to_regclass(name) is not null and not (
				has_table_privilege(name, 'select') and has_table_privilege(name, 'insert')
				and has_table_privilege(name, 'update') and has_table_privilege(name, 'delete'))), '')`, tables)
	})
	found = "version " + server
	switch isOld := version < newest || missing != ""; {
	case err != nil:
		return "", err
	case isOld && !makes:
		return "", &fault{reason: "the user lacks the right to make tables", down: true}
	case isOld:
		return found + "; the next start makes its tables", nil
	case refused != "":
		return "", &fault{reason: "the user lacks a right on the table " + refused, down: true}
	}
	return found + ", tables ready", nil
}
