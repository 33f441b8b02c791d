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
	"time"

	"github.com/spf13/cobra"

	"poold/internal/captcha"
	"poold/internal/cli"
	"poold/internal/compat"
	"poold/internal/events"
	"poold/internal/httpapi"
	"poold/internal/listener"
	"poold/internal/outcomes"
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
		Args:    cli.Words(0),
	}
	config := cli.ConfigFlag(command, c)
	listen := command.Flags().String("listen", c.Env("POOLD_LISTEN", ""), "`host:port` to listen on instead of the file's (env POOLD_LISTEN)")
	access := command.Flags().Bool("access-log", false, "log each request at level info")
	logger := cli.LogFlags(command, c)
	command.RunE = func(command *cobra.Command, _ []string) error {
		if err := checkAddress(*listen); err != nil {
			return err
		}
		log, err := logger()
		if err != nil {
			return err
		}
		return serve(command.Context(), c, *config, *listen, *access, log)
	}
	return command
}

// serve runs the daemon until ctx ends.
func serve(ctx context.Context, c *cli.Console, config, listen string, access bool, log *slog.Logger) error {
	// This line is logged before any step that can wait for a disk, Redis or a store.
	log.Info("starting", "version", version, "commit", commit(), "config", config)
	// The receiver stays registered until the daemon has stopped. Otherwise a SIGHUP during the stop
	// would kill the process.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	file := reload.NewFile(config, c.Lookup, log)
	file.OverrideListen(listen)
	set, err := file.Load(ctx)
	if err != nil {
		return err
	}
	d, err := newDaemon(ctx, file, set, access, log)
	if err != nil {
		return err
	}
	return d.run(ctx, hangups)
}

// daemon holds the parts of a running poold.
type daemon struct {
	file      *reload.File
	log       *slog.Logger
	accessLog bool
	port      *listener.Port
	listener  net.Listener   // counts the bytes of the connections of port, and serves TLS
	embedded  *embeddedRedis // nil if the daemon uses a real Redis
	redis     *redisdb.DB
	pool      *pool.Pool
	ids       *tokenid.Secret
	buyer     *purchase.Buyer
	outcomes  *outcomes.Book
	mode      string // "embedded", or the redisdb.Mode of a real Redis
	letters   string // folder of the dead letters; a reload does not change it
	manager   *refill.Manager
	claims    claims
	history   keeper
	solver    *solve.Service
	tasks     *compat.Tasks
	providers *providers
	metrics   *httpapi.Metrics
	status    *status.Collector
	events    *events.Log
	roster    *replicas.Roster
	server    *httpapi.Server
	http      *http.Server
	systemd   *systemd.Notifier
}

// newDaemon binds the port and builds the parts, but starts none of them except the embedded Redis.
// It binds the port first, so that the start fails early if the port is in use.
func newDaemon(ctx context.Context, file *reload.File, set *targets.Set, access bool, log *slog.Logger) (*daemon, error) {
	d := &daemon{file: file, log: log, accessLog: access, systemd: systemd.New(log)}
	if err := d.bind(ctx, set.Server); err != nil {
		return nil, err
	}
	if err := d.build(ctx, set); err != nil {
		return nil, errors.Join(err, d.listener.Close())
	}
	return d, nil
}

// openPool opens the configured Redis or the embedded one, and the pool in it.
func (d *daemon) openPool(set *targets.Set) error {
	address, embedded, err := openRedis(set.Redis, d.log)
	if err != nil {
		return err
	}
	d.embedded = embedded
	d.redis, err = redisdb.Open(redisdb.Options{
		Addresses: address, SentinelMaster: set.Redis.SentinelMaster, Prefix: set.Redis.Prefix, Log: d.log,
	})
	if err != nil {
		return err // the error names the address in the file
	}
	d.mode = string(d.redis.Mode)
	if embedded != nil {
		d.mode = "embedded"
	}
	d.pool = pool.New(pool.Config{
		DB: d.redis.Slow, Takes: d.redis.Hot, Prefix: set.Redis.Prefix, Replica: d.redis.Replica, Log: d.log,
		Away:    d.redis.Away,
		Changed: func(id captcha.ID) { d.manager.Changed(id) },
	})
	d.ids = tokenid.New(d.redis, "{"+set.Redis.Prefix+"}:secret")
	return nil
}

// build creates the parts and connects them.
func (d *daemon) build(ctx context.Context, set *targets.Set) error {
	if err := d.openPool(set); err != nil {
		return err
	}
	d.openEvents()
	d.metrics = httpapi.NewMetrics(version, commit(), d.port.Counts)
	d.providers = &providers{observe: d.metrics.Provider, changed: d.noteProvider, log: d.log, simulated: newSimulatedProvider(d.log)}
	d.letters = set.DeadLetters
	var err error
	if d.history, err = openHistory(ctx, set.History, d.redis, d.pool, d.log); err != nil {
		return errors.Join(err, d.disconnect())
	}
	d.outcomes = outcomes.New(d.redis, func(t captcha.Type) { d.manager.Retry(t) }, d.log)
	d.buyer = purchase.New(purchase.Config{
		Pool: d.pool, Letters: d.letters, Sink: d.history.sender != nil, Active: d.history.active,
		Chooser: d.outcomes, Observer: observer{d.metrics, d.outcomes, d.history.sender}, Log: d.log,
	})
	if err := d.openLetters(set); err != nil {
		return errors.Join(err, d.disconnect())
	}
	if d.claims, err = openClaims(ctx, set.Dedup, set.Redis.Prefix, d.redis, func(key captcha.ID) { d.solver.Wake(key) }, d.log); err != nil {
		return errors.Join(err, d.disconnect())
	}
	if err := await(ctx, d.log, d.history.look, d.claims.look); err != nil {
		return errors.Join(err, d.disconnect())
	}
	guests := &solve.Buyer{Orderer: d.buyer, Pool: d.pool, Log: d.log}
	d.manager = refill.New(d.pool, orderer{d.buyer, guests, d.noteBudget}, d.log)
	d.buyer.Turn = d.manager.Changed
	d.solver = solve.New(solve.Config{Pool: d.pool, Buyer: guests, Refiller: d.manager, Claims: d.claims, Savings: d.claims, Log: d.log})
	d.tasks = compat.New(d.pool, d.solver, d.log)
	started := time.Now()
	d.roster = replicas.New(d.redis, version, started, d.pool.Live, d.noteGone)
	auditor, audit, auditHealth := d.history.audit()
	d.status = status.NewCollector(status.Sources{
		File: d.file, Stock: d.pool, Purchases: d.buyer, Outcomes: d.outcomes, DeadLetters: d.buyer, Health: d.redis.Health,
		Savings: d.claims, History: d.history.health(), Audit: auditHealth, CallsPerToken: d.metrics.CallsPerToken, Log: d.log,
		Replicas: d.roster.List, RedisMode: d.mode, Version: version, StartedAt: started,
	})
	d.server = httpapi.New(httpapi.Deps{
		Config: d.file, Pool: d.pool, Health: d.redis.Health, IDs: d.ids, Buyer: d.buyer, Outcomes: d.outcomes, Solver: d.solver, Tasks: d.tasks,
		History: d.history.reader(), Audit: audit, Auditor: auditor,
		Status: d.status, Events: d.events, Metrics: d.metrics, Log: d.log, AccessLog: d.accessLog,
	})
	d.http = d.server.HTTPServer()
	return nil
}

// orderer buys for targets, and for guests whose callers learn it if nothing can be bought.
type orderer struct {
	*purchase.Buyer
	guests *solve.Buyer
	usedUp func(scope, target string)
}

// Buy implements refill.Buyer.
func (b orderer) Buy(ctx context.Context, s purchase.Spec, placed func(next captcha.ID, err error)) {
	b.guests.Buy(ctx, s, func(next captcha.ID, err error) {
		if refused := (*pool.RefusedError)(nil); errors.As(err, &refused) && refused.Reason == pool.ReasonBudget {
			b.usedUp(refused.Text, s.Target)
		}
		placed(next, err)
	})
}
