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
	"poold/internal/ondemand"
	"poold/internal/outcomes"
	"poold/internal/permits"
	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/redisdb"
	"poold/internal/refill"
	"poold/internal/replicas"
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
	store     *pool.Store
	buyer     *purchase.Buyer
	outcomes  *outcomes.Book
	mode      string // "embedded", or the redisdb.Mode of a real Redis
	letters   string // folder of the dead letters; a reload does not change it
	manager   *refill.Manager
	claims    claims
	history   keeper
	solver    *ondemand.Service
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

// stock is the part of the store that httpapi, status and refill use.
type stock struct {
	*redisdb.DB
	*pool.Tokens
	*pool.Controls
}

// orders is the part of the store that purchase uses.
type orders struct {
	*pool.Orders
	*permits.Permits
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

// openStock opens the stock in the configured Redis or in the embedded one.
func (d *daemon) openStock(set *targets.Set) error {
	address, embedded, err := openRedis(set.Redis, d.log)
	if err != nil {
		return err
	}
	d.embedded = embedded
	d.store, err = pool.Open(pool.Options{
		Addresses: address, SentinelMaster: set.Redis.SentinelMaster, Prefix: set.Redis.Prefix, Log: d.log,
		OnChange: func(id captcha.ID) {
			d.manager.Wake(id)
			d.solver.Wake(id)
		},
		OnEnded: func(order pool.Ref, how string) { d.buyer.Ended(order, how) },
		Endings: endings(set.History),
	})
	if err != nil {
		return err // the error names the address in the file
	}
	d.mode = string(d.store.DB.Mode)
	if embedded != nil {
		d.mode = "embedded"
	}
	return nil
}

// build creates the parts and connects them.
func (d *daemon) build(ctx context.Context, set *targets.Set) error {
	if err := d.openStock(set); err != nil {
		return err
	}
	stock := stock{d.store.DB, d.store.Tokens, d.store.Controls}
	d.openEvents()
	d.metrics = httpapi.NewMetrics(version, commit(), d.port.Counts)
	d.providers = &providers{observe: d.metrics.Provider, changed: d.noteProvider, log: d.log, simulated: newSimulatedProvider(d.log)}
	d.letters = set.DeadLetters
	var err error
	if d.history, err = openHistory(ctx, set.History, set.Redis.Prefix, d.store, d.log); err != nil {
		return errors.Join(err, d.disconnect())
	}
	d.outcomes = outcomes.New(d.store.DB, func(t captcha.Type) { d.manager.Retry(t) }, d.log)
	d.buyer = purchase.NewBuyer(orders{d.store.Orders, permits.New(d.store.DB)}, d.letters, observer{d.metrics, d.outcomes, d.history.sender, d.noteBudget}, d.log)
	d.buyer.SetChooser(d.outcomes)
	d.history.addMirror(set.History, d.buyer, d.log)
	if err := d.openLetters(set); err != nil {
		return errors.Join(err, d.disconnect())
	}
	if d.claims, err = openClaims(ctx, set.Dedup, set.Redis.Prefix, d.store.DB, func(key captcha.ID) { d.solver.Wake(key) }, d.log); err != nil {
		return errors.Join(err, d.disconnect())
	}
	if err := await(ctx, d.log, d.history.look, d.claims.look); err != nil {
		return errors.Join(err, d.disconnect())
	}
	d.solver = ondemand.New(ondemand.Parts{
		Tokens: d.store.Tokens, Guests: d.store.Guests, Buyer: d.buyer, Claims: d.claims, Savings: d.claims,
		HasTarget: func(id captcha.ID) bool { return d.manager.Has(id) }, Log: d.log,
	})
	d.tasks = compat.New(compat.NewRecords(d.store.DB), d.store.Tokens, d.solver, d.log)
	d.manager = refill.NewManager(stock, d.store.Replicas, d.buyer, d.solver.Ended, d.log)
	started := time.Now()
	d.roster = replicas.New(d.store.DB, version, started, d.manager.Live, d.noteGone)
	auditor, audit, auditHealth := d.history.audit()
	d.status = status.NewCollector(status.Sources{
		File: d.file, Stock: stock, Refill: d.manager, Purchases: d.buyer, Outcomes: d.outcomes, DeadLetters: d.buyer,
		Guests: d.store.Guests, Savings: d.claims, History: d.history.health(), Audit: auditHealth, CallsPerToken: d.metrics.CallsPerToken, Log: d.log,
		Replicas: d.roster.List, RedisMode: d.mode, Version: version, StartedAt: started,
	})
	d.server = httpapi.New(httpapi.Deps{
		Config: d.file, Stock: stock, Refill: d.manager, Buyer: d.buyer, Outcomes: d.outcomes, Solver: d.solver, Guests: d.store.Guests, Tasks: d.tasks,
		History: d.history.reader(), Audit: audit, Auditor: auditor,
		Status: d.status, Events: d.events, Metrics: d.metrics, Log: d.log, AccessLog: d.accessLog,
	})
	d.http = d.server.HTTPServer()
	return nil
}
