package postgres

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// mostConnections limits the connections, including the listening one.
	mostConnections = 4
	// DefaultLimit leaves the caller time to answer within a second.
	DefaultLimit = 900 * time.Millisecond
)

// Options are the options of Open.
type Options struct {
	Log    *slog.Logger
	Limit  time.Duration // of a call; 0 = DefaultLimit
	Prefix string        // names the installation, for the rows that its earlier versions wrote
}

// DB is one database. Its methods are safe for concurrent use.
type DB struct {
	pool   *pgxpool.Pool
	log    *slog.Logger
	limit  time.Duration
	prefix string                    // of Options
	fault  atomic.Pointer[fault]     // why the schema cannot be used; nil = it can be used
	heard  atomic.Pointer[listening] // nil before Run
	state  string                    // owned by Run: the last logged state; "" = it serves
}

// listening is the receiver of notifications.
type listening struct {
	channel string
	heard   func(payload string)
}

// Open parses the address, postgres://user:password@host:port/database, and does not connect. No error quotes the
// address. The caller closes the DB.
func Open(url string, o Options) (*DB, error) {
	if !strings.HasPrefix(url, "postgres://") && !strings.HasPrefix(url, "postgresql://") {
		return nil, errors.New("postgres address: must begin with postgres:// or postgresql://")
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, errors.New("postgres address: must be postgres://user:password@host:port/database, " +
			"with special characters percent-encoded and with options that PostgreSQL knows")
	}
	db := &DB{log: o.Log, limit: o.Limit, prefix: o.Prefix}
	if db.limit == 0 {
		db.limit = DefaultLimit
	}
	db.fault.Store(&fault{reason: "its schema was not read yet", down: true})
	db.tune(config)
	// The context is for initial connections; there are none.
	if db.pool, err = pgxpool.NewWithConfig(context.Background(), config); err != nil {
		return nil, translate(err)
	}
	return db, nil
}

// tune sets options, whatever the address says.
func (db *DB) tune(config *pgxpool.Config) {
	config.MaxConns, config.MinConns, config.MinIdleConns = mostConnections, 0, 0
	config.PingTimeout = db.limit
	config.ConnConfig.ConnectTimeout = db.limit
	config.ConnConfig.DialFunc = db.dial
	config.AfterConnect = func(_ context.Context, conn *pgx.Conn) error {
		return conn.PgConn().Conn().SetDeadline(time.Time{}) // set by dial
	}
	// Statements have no names: behind a pooler, another connection would not know the name.
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	config.ConnConfig.StatementCacheCapacity, config.ConnConfig.DescriptionCacheCapacity = 0, 0
	// A pooler may deliver a notification on any connection.
	config.ConnConfig.OnNotification = func(_ *pgconn.PgConn, n *pgconn.Notification) {
		if l := db.heard.Load(); l != nil && n.Channel == l.channel {
			l.heard(n.Payload)
		}
	}
}

// Close closes the connections. No call may be running.
func (db *DB) Close() { db.pool.Close() }

// dial makes a connection that gives up on a silent server within the limit. The driver alone would keep a broken
// connection, one of four, for 15 s: it asks the server on another connection to cancel the statement, and waits for
// the rest of the answer.
func (db *DB) dial(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: db.limit}
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if err := conn.SetDeadline(time.Now().Add(db.limit)); err != nil { // tune lifts it
		_ = conn.Close()
		return nil, err
	}
	return &limitedConn{Conn: conn, limit: db.limit}, nil
}

// limitedConn is a connection whose deadlines are at most limit away.
type limitedConn struct {
	net.Conn
	limit time.Duration
}

// SetDeadline sets a deadline, at most the limit away; the zero time removes it.
func (c *limitedConn) SetDeadline(at time.Time) error {
	if latest := time.Now().Add(c.limit); at.After(latest) {
		at = latest
	}
	return c.Conn.SetDeadline(at)
}
