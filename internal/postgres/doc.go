// Package postgres is the door to a PostgreSQL server: connections, transactions, the
// schema and notifications. Nothing else imports pgx. It knows nothing of what its
// users store, but for the numbered files in sql/.
//
// # Connections
//
// A DB has at most four connections; Run listens on one of them. Statements are never prepared
// under a name, so that a pooler in transaction mode (pgbouncer) can be used. Notifications may
// be lost there, so no caller may depend on one.
//
// # Faults
//
// A call ends within Options.Limit. Until then it is tried again where the connection
// broke (after a restart of the server each old connection fails once) or where another
// holds the lock of the key. A server that cannot be used is an ErrDown, and the log says
// so once for each change, while Run runs. An error that says that the server is not the
// primary (SQLSTATE 25006, 57P01 to 57P03) drops all connections. Run asks each second
// whether the server takes changes. No error holds what the driver says: its texts
// name host, user and database, and sometimes hold the whole URL. They are translated
// into own sentences (errors.go).
//
// # Schema
//
// Migrate applies sql/NNNN_name.sql in order, each in a separate transaction under one
// advisory lock, and records the number in the table poold_schema. Run does so too each
// time that it connects, so a server may come up later than the program. A file that was
// released is never changed; a change is a new file. In a file {prefix} is Options.Prefix. A database that a newer
// program has changed is refused with ErrNewer.
//
// A statement about a table that was dropped fails with an ErrDown that names the table.
// Migrate makes such a table again, by the statements of the applied files that name it.
package postgres
