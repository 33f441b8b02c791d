package redisdb

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// The modes, as in /status.json. For its built-in server cmd/poold shows "embedded" instead.
const modeSingle, modeSentinel, modeCluster = "single", "sentinel", "cluster"

// parseAddresses returns the options of the first address, and the host:port or path of each address. The user,
// password, database and TLS of the first address apply to all. An error does not quote an address, because an address
// may contain a password.
func parseAddresses(addresses string) (first *redis.Options, hosts []string, err error) {
	for i, address := range strings.Split(addresses, ",") {
		options, err := redis.ParseURL(strings.TrimSpace(address))
		if err != nil { // it may quote the address
			return nil, nil, fmt.Errorf("redis address %d: must be redis://, rediss:// or unix://, with host:port or a path",
				i+1)
		}
		if first == nil {
			first = options
		}
		hosts = append(hosts, options.Addr)
	}
	return first, hosts, nil
}

// client makes one client of go-redis. docs/developing.md explains the options.
func (db *DB) client(o Options, first *redis.Options, hosts []string) redis.UniversalClient {
	options := &redis.UniversalOptions{
		Addrs: hosts, DB: first.DB, PoolSize: first.PoolSize,
		MasterName: o.SentinelMaster, SentinelUsername: o.SentinelUser, SentinelPassword: o.SentinelPassword,
		CredentialsProviderContext: func(context.Context) (user, password string, err error) {
			return first.Username, *db.password.Load(), nil
		},
		Dialer:   db.dialer(o.Dial),
		Protocol: 3,
		// Redis 7.0 lacks the command CLIENT SETINFO, and no ACL file may name it.
		DisableIdentity: true,
		// Maintenance notifications are off, because Redis 7 would answer the request for them with an error at each
		// connection.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		ContextTimeoutEnabled:    true,
		DialTimeout:              CallTimeout, ReadTimeout: CallTimeout, WriteTimeout: CallTimeout, PoolTimeout: CallTimeout,
		DialerRetries: 1, // by default 5, 100 ms apart: a dead node would cost a call half of its time
		MaxRetries:    3, MaxRedirects: 3, MaxRetryBackoff: 100 * time.Millisecond,
		ConnMaxLifetime:  30 * time.Minute,
		PipelinePoolSize: -1, // no second pool of connections
	}
	switch db.Mode {
	case modeCluster:
		cluster := options.Cluster()
		cluster.MaxRetries = 0 // a client of a cluster follows redirects, MaxRedirects, instead
		// With the default interval, the client could miss a failover for a minute, because a failed dial does not make it
		// load the slots again.
		cluster.ClusterStateReloadInterval = time.Second
		return redis.NewClusterClient(cluster)
	case modeSentinel:
		// If the sentinel in use hangs, a dial must leave enough time to ask the other sentinels. So each of the client's two
		// questions to the hanging sentinel has a short time limit and no retry. These options are copied for the sentinels,
		// and the master's connections get their usual options again below.
		failover := options.Failover()
		failover.MaxRetries, failover.ReadTimeout = -1, CallTimeout/4
		client := redis.NewFailoverClient(failover)
		client.Options().MaxRetries, client.Options().ReadTimeout = options.MaxRetries, options.ReadTimeout
		return client
	default:
		return redis.NewClient(options.Simple())
	}
}

// dialer opens connections, with TLS if the addresses are rediss://. Unlike go-redis' dialer, it applies changed
// certificates, and obeys the context during the handshake.
func (db *DB) dialer(dial Dialer) Dialer {
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, CallTimeout)
		defer cancel()
		conn, err := dial(ctx, network, addr)
		config := db.tls.Load()
		if err != nil || config == nil {
			return conn, err
		}
		encrypted := tls.Client(conn, config)
		if err := encrypted.HandshakeContext(ctx); err != nil {
			_ = conn.Close()
			return nil, err
		}
		return encrypted, nil
	}
}
