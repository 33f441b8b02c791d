package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"poold/internal/captcha"
	"poold/internal/httpapi"
	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/refill"
	"poold/internal/targets"
)

// gcPercent replaces Go's 100. The heap is a few megabytes, most of it what
// requests leave behind: a collection at four times the live heap costs some
// memory and saves about a sixth of the time that a take costs.
const gcPercent = 400

// stopGrace is how long the port stays open after a stop began, with /readyz
// answering 503, so that balancers look elsewhere before connections are refused.
const stopGrace = time.Second

// drainLimit is how long requests under way may take after the grace. The buying
// ends by itself: a submit in flight is not cut, and has a limit of its own.
const drainLimit = 10 * time.Second

// serve runs the daemon until ctx ends.
func serve(ctx context.Context, c *command) error {
	flags := newFlags(c)
	config := configFlag(flags, c)
	listen := flags.String("listen", c.env("POOLD_LISTEN", ""), "`host:port` to listen on instead of the file's")
	logger := logFlags(flags, c)
	if _, err := c.parse(flags, 0); err != nil {
		return err
	}
	if err := checkAddress(*listen); err != nil {
		return err
	}
	log, err := logger()
	if err != nil {
		return err
	}
	// From here to the very end: without a reader SIGHUP would end the process,
	// also while it stops.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	file := targets.NewFile(*config, c.lookup, log)
	file.OverrideListen(*listen)
	set, err := file.Load(ctx)
	if err != nil {
		return err
	}
	if _, set := c.lookup("GOGC"); !set {
		debug.SetGCPercent(gcPercent)
	}
	d, err := newDaemon(ctx, file, set, log)
	if err != nil {
		return err
	}
	return d.run(ctx, hangups)
}

// daemon is everything that runs while poold serves.
type daemon struct {
	file     *targets.File
	log      *slog.Logger
	embedded func(context.Context) error // keeps the embedded Redis going; nil with a real one
	close    func()                      // ends the embedded Redis
	store    *pool.Store
	buyer    *purchase.Buyer
	manager  *refill.Manager
	market   *market
	server   *httpapi.Server
	listener net.Listener
	letters  string // folder of the dead letters, as at the start; a reload does not move it
}

// newDaemon builds everything and binds the port; nothing runs yet.
func newDaemon(ctx context.Context, file *targets.File, set *targets.Set, log *slog.Logger) (*daemon, error) {
	listener, err := bind(ctx, set.Server.Listen, set.Server.TLS)
	if err != nil {
		return nil, err
	}
	d := &daemon{file: file, log: log, listener: listener, letters: set.DeadLetters, close: func() {}}
	if err := d.build(set); err != nil {
		return nil, errors.Join(err, d.listener.Close())
	}
	return d, nil
}

func (d *daemon) build(set *targets.Set) error {
	redis.SetLogger(redisLog{d.log})
	address, mode := set.Redis.URL.Reveal(), ""
	if set.Redis.Embedded() {
		server, err := startEmbedded()
		if err != nil {
			return err
		}
		d.embedded = func(ctx context.Context) error { return tick(ctx, server) }
		d.close = server.Close
		address, mode = "redis://"+server.Addr(), "embedded"
		d.log.Warn("redis is embedded: it keeps nothing over a restart; set redis.url for a real one")
	}
	store, err := pool.Open(pool.Options{
		Addresses: address, SentinelMaster: set.Redis.SentinelMaster, Prefix: set.Redis.Prefix, Log: d.log,
		OnChange: func(id captcha.ID) { d.manager.Kick(id) },
		OnEnded:  func(order pool.Ref, how string) { d.buyer.Ended(order, how) },
	})
	if err != nil {
		d.close()
		return err
	}
	if mode == "" {
		mode = string(store.Mode())
	}
	metrics := httpapi.NewMetrics(version, commit())
	d.store = store
	d.buyer = purchase.NewBuyer(store, d.letters, metrics, d.log)
	if err := d.openLetters(set); err != nil {
		d.close()
		return errors.Join(err, store.Close())
	}
	d.manager = refill.NewManager(store, d.buyer, d.log)
	d.market = &market{observe: metrics.Provider, log: d.log}
	d.server = httpapi.New(httpapi.Deps{
		Config: d.file, Stock: store, Refill: d.manager, Buyer: d.buyer, Metrics: metrics, Log: d.log,
		RedisMode: mode, Version: version, StartedAt: time.Now(),
	})
	return nil
}

// openLetters makes sure that callbacks can be kept on disk, where there are to
// be any, and finds those of an earlier run.
func (d *daemon) openLetters(set *targets.Set) error {
	called := slices.ContainsFunc(set.Providers, func(p targets.Provider) bool { return p.CallbackURL != "" })
	if _, err := os.Stat(d.letters); err != nil && !called {
		return nil
	}
	if err := d.buyer.OpenDeadLetters(); err != nil {
		return fmt.Errorf("dead_letters.dir: %w", err)
	}
	return nil
}

// run works until ctx ends and then stops in stages: no request for a token is
// accepted and nothing is bought, waiting callers are sent away, answers under
// way are finished. Orders at the provider stay in the journal in Redis.
func (d *daemon) run(ctx context.Context, hangups <-chan os.Signal) error {
	defer d.close()
	// Everything lives in `all`; the buying ends first, with ctx.
	all, endAll := context.WithCancel(context.WithoutCancel(ctx))
	defer endAll()
	group, all := errgroup.WithContext(all)
	buying, endBuying := context.WithCancel(all)
	defer endBuying()
	stopping := context.AfterFunc(ctx, endBuying)
	defer stopping()

	spawn := func(work func() error) { group.Go(work) }
	apply := func(ctx context.Context, set *targets.Set) {
		d.buyer.SetProviders(d.market.entries(all, set, spawn))
		d.buyer.SetBudget(set.Budget.PerDay)
		d.manager.Apply(ctx, set)
	}
	apply(ctx, d.file.Current())
	d.file.OnApply(func(ctx context.Context, set *targets.Set) {
		if err := d.openLetters(set); err != nil {
			d.log.Error("callbacks cannot be kept while redis is away", "err", err)
		}
		apply(ctx, set)
	})

	if d.embedded != nil {
		spawn(func() error { return d.embedded(all) })
	}
	spawn(func() error { return d.store.Run(all) })
	spawn(func() error { return d.file.Run(buying) })
	// The buyer renews the leases of submits in flight until the last one has ended.
	buyer, endBuyer := context.WithCancel(all)
	defer endBuyer()
	spawn(func() error { return d.buyer.Run(buyer) })
	bought := make(chan struct{})
	spawn(func() error {
		defer endBuyer()
		defer close(bought)
		return d.manager.Run(buying)
	})
	spawn(func() error { return reloadOnHangup(buying, hangups, d.file, d.log) })
	server := d.server.HTTPServer()
	spawn(func() error {
		if err := server.Serve(d.listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serving: %w", err)
		}
		return nil
	})
	d.log.Info("serving", "address", d.listener.Addr().String(), "targets", len(d.file.Current().Targets))

	spawn(func() error {
		<-buying.Done() // a stop was asked for, or a part of the daemon failed
		defer endAll()
		d.log.Info("stopping")
		d.server.Stopping()
		d.store.SendAway()
		if ctx.Err() != nil { // else a part of the daemon failed, and nobody waits
			time.Sleep(stopGrace)
		}
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainLimit)
		defer cancel()
		err := server.Shutdown(limited)
		if err != nil {
			err = errors.Join(fmt.Errorf("requests did not end within %s: %w", drainLimit, err), server.Close())
		}
		select {
		case <-bought:
		case <-limited.Done():
		}
		return err
	})
	err := group.Wait()
	d.market.close()
	err = errors.Join(err, d.store.Close())
	d.log.Info("stopped")
	return err
}

// bind listens before anything else starts, so that a port that is taken ends
// the start at once.
func bind(ctx context.Context, address string, files targets.TLS) (net.Listener, error) {
	var config net.ListenConfig
	network := "tcp"
	if host, _, err := net.SplitHostPort(address); err == nil && net.ParseIP(host).To4() != nil {
		network = "tcp4" // 0.0.0.0 would mean IPv6 too
	}
	listener, err := config.Listen(ctx, network, address)
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	listener = httpapi.CountListener(listener)
	if files.Cert == "" {
		return listener, nil
	}
	pair, err := loadCertificate(files)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return tls.NewListener(listener, &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}), nil
}

// loadCertificate reads the files of server.tls.
func loadCertificate(files targets.TLS) (tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		return pair, fmt.Errorf("server.tls: %w", err)
	}
	return pair, nil
}

// reloadOnHangup reads the file again at each SIGHUP.
func reloadOnHangup(ctx context.Context, hangups <-chan os.Signal, file *targets.File, log *slog.Logger) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-hangups:
			log.Info("reloading, as SIGHUP asks")
			_ = file.Reload(ctx) // it has logged what is wrong
		}
	}
}

// redisLog sends what go-redis reports to the daemon's log. It tells of each
// failed dial; the store says once that Redis is away.
type redisLog struct{ log *slog.Logger }

// Printf implements go-redis' logger.
func (r redisLog) Printf(ctx context.Context, format string, args ...any) {
	r.log.DebugContext(ctx, fmt.Sprintf(format, args...))
}
