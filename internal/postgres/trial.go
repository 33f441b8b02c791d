package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
)

// Trial is the result of Try.
type Trial struct {
	Server string // version of the server
	Schema Schema
}

// Schema is the state of the schema in the database.
type Schema int

// The states of a schema.
const (
	SchemaReady Schema = iota // the schema has this program's version
	SchemaOld                 // Migrate can bring the schema up to date
	SchemaNone                // Migrate can create the schema
)

// Try checks whether poold can use the database, and changes nothing. It returns an error if Migrate
// or a later call would fail, because:
//   - the server does not respond or is read-only,
//   - the schema is newer than this program,
//   - a table was dropped, or
//   - the user lacks a right.
func (db *DB) Try(ctx context.Context) (found Trial, err error) {
	conn, err := db.connect(ctx)
	if err != nil {
		return found, err
	}
	defer conn.Release()
	if err := db.probe(ctx, conn); err != nil {
		return found, err
	}
	var unusable error
	err = within(ctx, db.limit, func(ctx context.Context) error {
		return transact(ctx, conn, func(ctx context.Context, tx Tx) (err error) {
			found, unusable, err = readTrial(ctx, tx)
			return err
		})
	})
	return found, cmp.Or(err, unusable)
}

// readTrial reads the state of a database. The result unusable is the reason why poold cannot use the
// database; nil = poold can use it. The result err is the error of the check itself.
func readTrial(ctx context.Context, tx Tx) (found Trial, unusable, err error) {
	var makes bool
	if err := tx.First(ctx, []any{&found.Server, &makes}, `select split_part(current_setting('server_version'), ' ', 1),
		coalesce(has_schema_privilege(current_schema(), 'create'), false)`); err != nil {
		return found, nil, err
	}
	version, missing, err := readSchema(ctx, tx)
	switch {
	case errors.Is(err, ErrNewer):
		return found, err, nil
	case err != nil:
		return found, nil, err
	case version == 0:
		found.Schema = SchemaNone
	case version < newest:
		found.Schema = SchemaOld
	}
	switch {
	case version < newest && !makes:
		return found, &fault{reason: "the user lacks the right to make tables", down: true}, nil
	case version < newest:
		return found, nil, nil
	case missing != "":
		return found, noTable(missing), nil
	}
	var refused string // a table on which the user lacks a right
	err = tx.Each(ctx, []any{&refused}, func() {}, `select name from unnest($1::text[]) name
		where not (has_table_privilege(name, 'select') and has_table_privilege(name, 'insert')
			and has_table_privilege(name, 'update') and has_table_privilege(name, 'delete')) order by name desc`, tables)
	if refused != "" {
		unusable = &fault{reason: "the user lacks a right on the table " + refused, down: true}
	}
	return found, unusable, err
}

// newer returns an ErrNewer with the version of the database and the version of this program.
func newer(version, known int) error {
	return fmt.Errorf("%w: the database has version %d, this program knows %d", ErrNewer, version, known)
}
