package redisdb

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Mode is the way in which Redis is deployed.
type Mode string

// The modes, as in /status.json. For its built-in server cmd/poold shows "embedded" instead.
const (
	ModeSingle   Mode = "single"
	ModeSentinel Mode = "sentinel"
	ModeCluster  Mode = "cluster"
)

// password is the password of new connections. A change of it does not affect open connections.
type password struct{ atomic.Pointer[string] }

// credentials returns a function that go-redis calls for the user and the password of each new
// connection.
func (p *password) credentials(user string) func(context.Context) (string, string, error) {
	return func(context.Context) (string, string, error) { return user, *p.Load(), nil }
}

// route describes the addresses of Redis.
type route struct {
	mode   Mode
	where  string // host:port or path of each address, without user and password
	secure bool   // whether the addresses use TLS
}

// clients returns a function that makes one client for all addresses. The addresses are URLs with
// redis://, rediss:// or unix://. A cluster and sentinels have several addresses, separated by
// commas. The user and the first password are those of the first address. The result secret is the
// password of new connections. The function clients does no I/O. Its errors do not quote an address,
// because an address may contain a password.
func clients(addresses, sentinelMaster string, dial func(ctx context.Context, network, addr string) (net.Conn, error)) (connect func() redis.UniversalClient, to route, secret *password, err error) {
	var hosts []string
	var first *redis.Options
	for i, address := range strings.Split(addresses, ",") {
		options, err := parseAddress(strings.TrimSpace(address))
		if err != nil {
			return nil, route{}, nil, fmt.Errorf("redis address %d: %w", i+1, err)
		}
		if first == nil {
			first = options
		}
		hosts = append(hosts, options.Addr)
	}
	tune(first)
	secret = new(password)
	secret.Store(&first.Password)
	first.CredentialsProviderContext = secret.credentials(first.Username)
	if dial != nil {
		first.Dialer = dial
	}
	to = route{mode: ModeSingle, where: firstThree(hosts), secure: first.TLSConfig != nil}
	switch {
	case sentinelMaster != "":
		to.mode, to.where = ModeSentinel, "sentinels "+to.where
	case len(hosts) > 1 && first.DB != 0:
		return nil, route{}, nil, errors.New("a cluster has database 0 alone: leave the number out of the address")
	case len(hosts) > 1:
		to.mode = ModeCluster
	}
	return func() redis.UniversalClient {
		one := *first
		switch to.mode {
		case ModeSentinel:
			return sentinelClient(several(&one, hosts).Failover(), sentinelMaster)
		case ModeCluster:
			options := several(&one, hosts).Cluster()
			// With the default interval, a failover could go unnoticed for a minute.
			options.ClusterStateReloadInterval = time.Second
			return redis.NewClusterClient(options)
		default:
			return redis.NewClient(&one)
		}
	}, to, secret, nil
}

// sentinelClient makes a client for the master behind sentinels. If the sentinel in use hangs, the
// client asks the other ones within a dial. So each of its two questions to the hanging sentinel has
// a short time limit and no retry.
func sentinelClient(o *redis.FailoverOptions, master string) *redis.Client {
	o.MasterName, o.MaxRetries, o.ReadTimeout = master, -1, CallTimeout/4
	client := redis.NewFailoverClient(o)
	// The options of the sentinels are copies, and those of the master are in use from now on.
	client.Options().MaxRetries, client.Options().ReadTimeout = maxRetries, CallTimeout
	return client
}

func parseAddress(address string) (*redis.Options, error) {
	options, err := redis.ParseURL(address)
	if err == nil {
		return options, nil
	}
	// The library's error may quote the address with its password.
	var bad *url.Error
	if errors.As(err, &bad) {
		return nil, fmt.Errorf("not a URL: %w", bad.Err)
	}
	return nil, errors.New("must be redis://, rediss:// or unix://, with host:port or a path")
}

// maxRetries is the number of repetitions of a call that got no reply, except in a cluster.
const maxRetries = 3

// tune sets the options. docs/decisions.md has the reasons.
func tune(o *redis.Options) {
	o.Protocol = 3
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	o.ContextTimeoutEnabled = true
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = CallTimeout, CallTimeout, CallTimeout, CallTimeout
	o.DialerRetries = 1
	o.MaxRetries = maxRetries
	o.MaxRetryBackoff = 100 * time.Millisecond
	o.ConnMaxLifetime = 30 * time.Minute
	o.PipelinePoolSize = -1
	if o.TLSConfig != nil {
		o.TLSConfig.MinVersion = tls.VersionTLS12
	}
}

// several converts the options of one server to options for several servers. A client
// of a cluster follows redirects instead of retrying at the same node.
func several(o *redis.Options, hosts []string) *redis.UniversalOptions {
	return &redis.UniversalOptions{
		Addrs: hosts, Dialer: o.Dialer,
		CredentialsProviderContext: o.CredentialsProviderContext, DB: o.DB, TLSConfig: o.TLSConfig,
		Protocol: o.Protocol, DisableIdentity: o.DisableIdentity,
		MaintNotificationsConfig: o.MaintNotificationsConfig, ContextTimeoutEnabled: o.ContextTimeoutEnabled,
		DialTimeout: o.DialTimeout, ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout,
		PoolTimeout: o.PoolTimeout, DialerRetries: o.DialerRetries,
		MaxRedirects: 3, MaxRetryBackoff: o.MaxRetryBackoff,
		ConnMaxLifetime: o.ConnMaxLifetime, PipelinePoolSize: o.PipelinePoolSize,
	}
}
