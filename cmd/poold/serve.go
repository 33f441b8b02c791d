package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"poold/internal/backend"
	"poold/internal/captcha"
	"poold/internal/claims"
	"poold/internal/cli"
	"poold/internal/compat"
	"poold/internal/events"
	"poold/internal/httpapi"
	"poold/internal/listener"
	"poold/internal/notify"
	"poold/internal/pool"
	"poold/internal/pool/tokenid"
	"poold/internal/purchase"
	"poold/internal/redisdb"
	"poold/internal/refill"
	"poold/internal/replicas"
	"poold/internal/solve"
	"poold/internal/status"
	"poold/internal/systemd"
	"poold/internal/targets"
	"poold/internal/targets/reload"
)

func newServe(c *cli.Console) *cobra.Command {
	command := &cobra.Command{
		Use:   "serve",
		Short: "run the daemon in the foreground",
		Long: "Runs the daemon in the foreground. SIGINT and SIGTERM stop it in stages, SIGHUP reads the file again.\n" +
			"poold without a command does the same.",
		Example: "  poold serve --config pools.yaml\n  poold serve --listen 127.0.0.1:9090 --log-format json",
		Args:    cobra.NoArgs,
	}
	config := cli.ConfigFlag(command, c)
	listen := command.Flags().String("listen", c.Env("POOLD_LISTEN", ""),
		"`host:port` to listen on instead of the file's (env POOLD_LISTEN)")
	access := command.Flags().Bool("access-log", false, "log each request at level info")
	logger := cli.LogFlags(command, c)
	command.RunE = func(command *cobra.Command, _ []string) error {
		if rule := targets.ListenFault(*listen, 1); *listen != "" && rule != "" {
			return cli.UsageError("--listen (or POOLD_LISTEN) " + rule)
		}
		log, lines, err := logger()
		if err != nil {
			return err
		}
		defer lines.Close()
		return serve(command.Context(), c, *config, *listen, *access, log, lines)
	}
	return command
}

// serve runs the daemon until ctx ends.
func serve(ctx context.Context, c *cli.Console, config, listen string, access bool, log *slog.Logger,
	lines *cli.LogWriter) error {
	// This line is logged before any step that can wait for a disk, Redis or a store.
	self := replicas.New(version)
	log.Info("starting", "version", version, "commit", commit(), "config", config, "replica", self.ID)
	// The receiver stays registered until the daemon has stopped. Otherwise a SIGHUP during the stop
	// would kill the process.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	signal.Ignore(syscall.SIGPIPE) // the end of the program that reads the log does not end the daemon
	defer signal.Stop(hangups)
	file := reload.NewFile(config, c.Lookup, log)
	file.Listen = listen
	set, err := file.Load()
	if err != nil {
		return err
	}
	d, err := newDaemon(ctx, file, set, self, access, log, lines)
	if err != nil {
		return err
	}
	return d.run(ctx, hangups)
}

// daemon holds the parts of a running poold.
type daemon struct {
	file      *reload.File
	log       *slog.Logger
	lines     *cli.LogWriter // of log
	port      *listener.Port
	listener  net.Listener   // port, or TLS on it
	embedded  *embeddedRedis // nil if the daemon uses a real Redis
	redis     *redisdb.DB
	pool      *pool.Pool
	ids       *tokenid.Secret
	buyer     *purchase.Buyer
	manager   *refill.Manager
	stores    stores
	solver    *solve.Solver
	providers *providers
	status    *status.Collector
	events    *events.Log
	replica   replicas.Replica
	notifier  *notify.Notifier
	server    *httpapi.Server
	http      *http.Server
	systemd   *systemd.Notifier
}

// newDaemon binds the port and wires the parts, but starts none of them except the embedded Redis.
func newDaemon(ctx context.Context, file *reload.File, set *targets.Set, self replicas.Replica, access bool,
	log *slog.Logger, lines *cli.LogWriter) (*daemon, error) {
	d := &daemon{file: file, log: log, lines: lines, replica: self, systemd: systemd.New(log)}
	if err := d.wire(ctx, set, access); err != nil {
		if d.port != nil {
			err = errors.Join(err, d.port.Close())
		}
		return nil, errors.Join(err, d.disconnect())
	}
	return d, nil
}

// wire creates the parts and connects them. It binds the port first, so that the start fails early if
// the port is in use.
func (d *daemon) wire(ctx context.Context, set *targets.Set, access bool) (err error) {
	log := d.log
	if d.port, err = listener.Listen(ctx, set.Server.Listen, set.Server.Connections, log); err != nil {
		return err
	}
	if d.listener = d.port; set.Server.TLS.Certificate != nil {
		d.listener = d.port.TLS()
	}
	address, embedded, err := openRedis(set.Redis)
	if err != nil {
		return err
	}
	d.embedded = embedded
	d.redis, err = redisdb.Open(backend.RedisOptions(set.Redis, address, log))
	if err != nil {
		return err // the error names the address in the file
	}
	if embedded != nil {
		d.redis.Mode = "embedded"
	}
	host, port, _ := net.SplitHostPort(d.port.Addr().String())
	if !net.ParseIP(host).IsLoopback() {
		host, _ = os.Hostname() // "" if the system does not tell it
	}
	d.replica.Address = net.JoinHostPort(host, port)
	d.pool = pool.New(pool.Config{
		Slow: d.redis.Slow, Fast: d.redis.Fast, Prefix: set.Redis.Prefix, Replica: d.replica.Name(), Log: log,
		Away:    d.redis.Away,
		Changed: func(id captcha.ID) { d.manager.Changed(id) },
		Money:   func(amount string) string { return d.file.Current().Currency.With(amount) },
	})
	d.ids = tokenid.New(d.redis, "{"+set.Redis.Prefix+"}:secret")
	d.openEvents()
	d.notifier = &notify.Notifier{Events: d.events, DB: d.redis, Replica: d.replica.ID, Version: version, Log: log}
	metrics := httpapi.NewMetrics(version, commit(), d.replica.String(), d.port.Counts, d.lines.Dropped)
	d.providers = newProviders(metrics.Provider)
	if err := d.openStores(ctx, set); err != nil {
		return err
	}
	keeps := d.stores.sink != nil
	d.buyer = purchase.New(purchase.Config{
		Pool: d.pool, Letters: set.DeadLetters, Sink: keeps, Active: d.stores.active,
		Observer: metrics, Log: log, ProviderChanged: d.noteProvider, BalanceRead: d.noteBalance, UsedUp: d.noteUsedUp,
	})
	d.manager = refill.New(d.pool, d.buyer, log)
	d.buyer.Turn, d.manager.Refused = d.manager.Changed, d.noteRefused
	d.solver = solve.New(solve.Config{Pool: d.pool, Buy: d.buyer.Buy, Refiller: d.manager,
		Claims: &claims.Claims{Store: d.stores.claims}, Log: log})
	d.status = status.NewCollector(status.Sources{
		File: d.file, Pool: d.pool, Buyer: d.buyer, Outcomes: d.buyer.Chooser.Rows, Health: d.redis.Health,
		History: d.stores.health, Webhook: d.notifier.Trouble, Log: log,
		Replicas: func() []replicas.Replica { return replicas.List(d.pool.Live()) }, RedisMode: d.redis.Mode,
		Version: version, StartedAt: d.replica.Started,
	})
	d.server = httpapi.New(httpapi.Deps{ //nolint:contextcheck // each request has a context
		Config: d.file, Pool: d.pool, Health: d.redis.Health, IDs: d.ids, Buyer: d.buyer, Solver: d.solver,
		Tasks: compat.New(d.pool, d.solver, log), UsedUp: d.noteUsedUp, History: d.stores.sink, Audit: keeps &&
			set.History.Audit > 0, Status: d.status, Events: d.events, Metrics: metrics, Log: log, AccessLog: access,
	})
	d.http = d.server.HTTPServer()
	return nil
}
