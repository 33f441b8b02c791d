package postgres

import (
	"context"
	"fmt"
)

// Trial is the result of Try.
type Trial struct {
	Server string // its version
	Schema Schema
}

// Schema is the state of the schema.
type Schema int

// The states of a schema.
const (
	SchemaReady Schema = iota
	SchemaOld          // Migrate brings it up to date
	SchemaNone         // Migrate makes it
)

// Try checks that the server would serve, and changes nothing. It fails if Migrate or a later call would fail: no
// answer, no changes, a newer schema, a dropped table, a missing right.
func (db *DB) Try(ctx context.Context) (found Trial, err error) {
	conn, err := db.connect(ctx)
	if err != nil {
		return found, err
	}
	defer conn.Release()
	if err := db.probe(ctx, conn); err != nil {
		return found, err
	}
	all, seen := db.steps(), reading{}
	if err := within(ctx, db.limit, func(ctx context.Context) error {
		return transact(ctx, conn, func(ctx context.Context, tx Tx) (err error) {
			seen, err = read(ctx, tx, all)
			return err
		})
	}); err != nil {
		return found, err
	}
	found.Server = seen.server
	switch {
	case seen.version == 0:
		found.Schema = SchemaNone
	case seen.version < len(all):
		found.Schema = SchemaOld
	}
	return found, seen.fault(len(all))
}

// reading is the state of a database that Try reads.
type reading struct {
	server  string
	makes   bool // the user may make tables
	version int
	lost    []statement
	refused string // a table on which the user lacks a right; "" = none
}

func read(ctx context.Context, tx Tx, all []step) (r reading, err error) {
	if err := tx.First(ctx, []any{&r.server, &r.makes}, `select split_part(current_setting('server_version'), ' ', 1),
		coalesce(has_schema_privilege(current_schema(), 'create'), false)`); err != nil {
		return r, err
	}
	if r.version, err = applied(ctx, tx); err != nil || r.version > len(all) {
		return r, err
	}
	if r.lost, err = dropped(ctx, tx, all[:r.version]); err != nil || len(r.lost) > 0 {
		return r, err
	}
	return r, tx.Each(ctx, []any{&r.refused}, func() {}, `select name from unnest($1::text[]) name
		where not (has_table_privilege(name, 'select') and has_table_privilege(name, 'insert')
			and has_table_privilege(name, 'update') and has_table_privilege(name, 'delete')) order by name desc`, tables(all[:r.version]))
}

// fault returns why the database would not serve a program with this number of steps.
func (r reading) fault(known int) error {
	switch {
	case r.version > known:
		return newer(r.version, known)
	case len(r.lost) > 0:
		return noTable(r.lost[0].table)
	case r.version < known && !r.makes:
		return &fault{reason: "the user lacks the right to make tables", down: true}
	case r.refused != "":
		return &fault{reason: "the user lacks a right on the table " + r.refused, down: true}
	}
	return nil
}

// newer returns the ErrNewer of a database.
func newer(version, known int) error {
	return fmt.Errorf("%w: the database has version %d, this program knows %d", ErrNewer, version, known)
}
