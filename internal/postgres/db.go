package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
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
	// mostConnections limits the connections of a DB. The connection that listens for notifications
	// counts too.
	mostConnections = 4
	// DefaultLimit is the default time limit of a call. With this limit the caller can still respond
	// to a request within a second.
	DefaultLimit = 900 * time.Millisecond
)

// Options are the options of Open.
type Options struct {
	Log   *slog.Logger
	Limit time.Duration // time limit of a call; 0 = DefaultLimit
}

// DB is a handle of one database. Its methods are safe for concurrent use.
type DB struct {
	pool   *pgxpool.Pool
	log    *slog.Logger
	limit  time.Duration
	fault  atomic.Pointer[fault]     // why the schema cannot be used; nil = the schema can be used
	heard  atomic.Pointer[listening] // the receiver that Run sets; nil before Run
	secret atomic.Pointer[string]    // the password of new connections; nil = the password of the address
	state  string                    // the last logged state; "" = the server can be used; only for Run
}

// listening contains the channel on which Run listens, and the function that receives the
// notifications.
type listening struct {
	channel string
	heard   func(payload string)
}

// Open returns a DB for an address of the form postgres://user:password@host:port/database. It does
// not connect. Its errors do not quote the address. The caller must close the DB.
func Open(url string, o Options) (*DB, error) {
	if !strings.HasPrefix(url, "postgres://") && !strings.HasPrefix(url, "postgresql://") {
		return nil, errors.New("postgres address: must begin with postgres:// or postgresql://")
	}
	config, err := pgxpool.ParseConfig(url)
	if file := (*fs.PathError)(nil); errors.As(err, &file) {
		return nil, fmt.Errorf("postgres address: it names a file that cannot be read: %w", file)
	}
	if err != nil {
		return nil, errors.New("postgres address: must be postgres://user:password@host:port/database, " +
			"with special characters percent-encoded and with options that PostgreSQL knows")
	}
	db := &DB{log: o.Log, limit: o.Limit}
	if db.limit == 0 {
		db.limit = DefaultLimit
	}
	db.fault.Store(&fault{reason: "its schema was not read yet", down: true})
	db.tune(config)
	// The context affects only initial connections, and tune sets their number to zero.
	db.pool, err = pgxpool.NewWithConfig(context.Background(), config)
	return db, translate(err)
}

// tune sets the options of connections. It overrides options in the address.
func (db *DB) tune(config *pgxpool.Config) {
	config.MaxConns, config.MinConns, config.MinIdleConns = mostConnections, 0, 0
	config.PingTimeout = db.limit
	config.ConnConfig.ConnectTimeout = db.limit
	config.ConnConfig.DialFunc = db.dial
	config.BeforeConnect = func(_ context.Context, to *pgx.ConnConfig) error {
		if secret := db.secret.Load(); secret != nil {
			to.Password = *secret
		}
		return nil
	}
	config.AfterConnect = func(_ context.Context, conn *pgx.Conn) error {
		return conn.PgConn().Conn().SetDeadline(time.Time{}) // removes the deadline that dial set
	}
	// Statements are not prepared under a name, because a pooler may send the next call to a
	// connection without the prepared statement.
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	config.ConnConfig.StatementCacheCapacity, config.ConnConfig.DescriptionCacheCapacity = 0, 0
	// A pooler may deliver a notification on any connection.
	config.ConnConfig.OnNotification = func(_ *pgconn.PgConn, n *pgconn.Notification) {
		if l := db.heard.Load(); l != nil && n.Channel == l.channel {
			l.heard(n.Payload)
		}
	}
}

// SetPassword sets the password for new connections; "" means the password of the address. Open
// connections stay in use for at most an hour.
func (db *DB) SetPassword(text string) {
	if text == "" {
		db.secret.Store(nil)
		return
	}
	db.secret.Store(&text)
}

// Close closes the connections. No call of another method may be running.
func (db *DB) Close() { db.pool.Close() }

// dial opens a connection. If the server is silent, each read and write fails within the limit.
// Without this limit, the driver would keep a broken connection, one of only four, for 15 s. During
// these 15 s the driver would send a cancellation of the statement on another connection, and wait
// for the rest of the response.
func (db *DB) dial(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: db.limit}
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(db.limit)) // AfterConnect in tune removes the deadline
	return &limitedConn{Conn: conn, limit: db.limit}, nil
}

// limitedConn is a connection whose deadlines lie at most `limit` in the future.
type limitedConn struct {
	net.Conn
	limit time.Duration
}

// SetDeadline sets the deadline to the given time, or to now + limit if the given time is later.
// The zero time removes the deadline.
func (c *limitedConn) SetDeadline(at time.Time) error {
	if latest := time.Now().Add(c.limit); at.After(latest) {
		at = latest
	}
	return c.Conn.SetDeadline(at)
}
