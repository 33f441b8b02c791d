// Package postgres manages the connections to a PostgreSQL server, transactions, the schema and notifications. No other
// package imports pgx. The tables of other packages are only in the numbered files in sql/.
//
// # Connections
//
// A DB has at most four connections; DB.Run listens on one of them. The package prepares no statement under a name, so
// that a pooler in transaction mode (pgbouncer) can be used. Such a pooler may lose notifications, so no caller may
// depend on a notification.
//
// # Faults
//
// A call ends within Options.Limit. Within this limit the call is repeated in two cases: the
// connection broke, or another transaction holds the lock of the key. After a restart of the server
// each old connection fails once. If the server cannot be used, the error is an ErrDown. While DB.Run
// runs, the log has one line for each change between serving and not serving. If an error shows that
// the server is not the primary or stops (SQLSTATE 25006, 57P01 to 57P03), the DB drops all
// connections. DB.Run checks each second whether the server accepts changes. No error contains the
// driver's text, which names host, user and database, and sometimes the whole URL. The file errors.go
// replaces this text.
//
// # Schema
//
// Migrate applies sql/NNNN_name.sql in order, each in a separate transaction under one advisory lock, and records the
// number in the table poold_schema. DB.Run does the same each time that it connects, so the server may start later than
// the program. A released file is never changed; each change of the schema is a new file. In a file, {prefix} stands for
// Options.Prefix. If a newer program has changed the schema, this program gets ErrNewer and cannot use the database.
//
// A statement about a dropped table fails with an ErrDown that names the table. Migrate creates the table again with those
// statements of the applied files that name it.
package postgres
