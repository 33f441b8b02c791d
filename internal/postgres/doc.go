// Package postgres opens a PostgreSQL server: connections, transactions, the schema and notifications. No other
// package imports pgx. It knows its users' data only by the numbered files in sql/.
//
// # Connections
//
// A DB has at most four connections; Run listens on one of them. It prepares no statement under a name, so that a pooler
// in transaction mode (pgbouncer) can be used. Such a pooler may lose notifications, so no caller may depend on one.
//
// # Faults
//
// A call ends within Options.Limit. Until then it is repeated if the connection broke (after a restart of the server each
// old connection fails once) or if another transaction holds the lock of the key. A server that cannot be used is an
// ErrDown. While Run runs, the log has one line for each change. An error that shows that the server is not the primary
// (SQLSTATE 25006, 57P01 to 57P03) drops all connections. Run asks each second whether the server takes changes. No error
// contains the driver's text, which names host, user and database, and sometimes the whole URL; errors.go translates them.
//
// # Schema
//
// Migrate applies sql/NNNN_name.sql in order, each in a separate transaction under one advisory lock, and records the
// number in the table poold_schema. Run does the same each time that it connects, so the server may start later than
// the program. A released file is never changed; a change is a new file. In a file {prefix} is Options.Prefix. A
// database that a newer program has changed is refused with ErrNewer.
//
// A statement about a dropped table fails with an ErrDown that names the table. Migrate makes the table again, by the
// statements of the applied files that name it.
package postgres
