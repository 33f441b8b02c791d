// Package postgres manages the connections to a PostgreSQL server, transactions and the schema. No other package
// imports pgx. The numbered files in sql/ create all tables, also the tables of other packages.
//
// # Connections
//
// A DB has at most four connections. The package prepares no statement under a name, so that a pooler in transaction
// mode (pgbouncer) can be used.
//
// # Faults
//
// Each call ends within the limit of Open. Within this limit the DB retries the call if the connection broke or
// transactions conflict. If the server cannot be used, the error is an ErrDown. While DB.Run runs, it logs one line
// when the server becomes unavailable and one line when the server is available again. If the network swallows a
// request, the driver gives up its connection only after 15 s.
//
// If an error shows that the server is not the primary or is stopping (SQLSTATE 25006, 57P01 to 57P03),
// the DB drops all connections. DB.Run checks each second whether the server accepts changes. The
// driver's errors contain the host, the user and the database, and sometimes the whole URL. The file
// errors.go replaces their text, so no error of this package contains it.
//
// # Schema
//
// The files sql/NNNN_name.sql make the schema. The library goose applies them in order, each in a
// transaction, and keeps their numbers in the table poold_schema. One replica at a time does so, under
// an advisory lock. DB.Run looks for missing files each second. The server may therefore start later
// than the program. A released file is never changed; each change of the schema
// is a new file. If a newer program has changed the schema, Migrate returns an ErrNewer.
//
// A statement about a dropped table fails with an ErrDown that names the table. Migrate recreates it,
// because the files create only missing objects.
package postgres
