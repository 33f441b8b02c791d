package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"poold/internal/events"
	"poold/internal/replicas"
)

// stopGrace is how long the port stays open after a stop has started. During this time /readyz
// answers 503, so that load balancers choose another replica before the port closes.
const stopGrace = time.Second

// drainLimit limits how long requests in flight may continue after stopGrace.
const drainLimit = 10 * time.Second

// run starts the daemon, waits until ctx ends or a part of the daemon fails, and stops the daemon.
// This function shows all stages of startup and shutdown, in order.
func (d *daemon) run(ctx context.Context, hangups <-chan os.Signal) error {
	working, failed := context.WithCancel(ctx)
	defer failed()
	// The parts must outlive ctx, because each part ends in its own stage of the stop.
	lasting := context.WithoutCancel(ctx)

	d.apply(ctx, d.file.Current())
	d.file.Apply = d.apply
	support := start(lasting, failed, d.supportParts()...)
	d.redis.AwaitProbe(working) // so that /readyz never answers 200 without Redis
	d.noteStart(lasting)
	noting := start(lasting, failed, d.events.Run, d.notifier.Run)
	// Reloads change the targets that buying works on.
	buying := start(lasting, failed, d.manager.Run, d.solver.Run, d.file.Run, func(ctx context.Context) error {
		return d.reloadOnHangup(ctx, hangups)
	})
	serving := start(lasting, failed, func(context.Context) error {
		if err := d.http.Serve(d.listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serving: %w", err)
		}
		return nil
	})
	d.greet(d.file.Current())
	d.systemd.Ready()

	<-working.Done()
	d.log.Info("stopping")
	d.systemd.Stopping()
	d.noteReplica(events.ReplicaStopped, d.replica, "gone", "stops")
	buying.end()        // no new orders; a call to a provider that is in flight continues, at most until its timeout
	d.server.Stopping() // /readyz answers 503
	d.pool.EndWaits()
	if ctx.Err() != nil { // if a part has failed instead, the port closes without this wait
		time.Sleep(stopGrace) // so that load balancers notice
	}
	limited, cancel := context.WithTimeout(lasting, drainLimit)
	defer cancel()
	err := d.http.Shutdown(limited)
	if err != nil {
		err = errors.Join(fmt.Errorf("requests did not end within %s: %w", drainLimit, err), d.http.Close())
	}
	err = errors.Join(err, serving.wait())
	err = errors.Join(err, noting.stop()) // no request is in flight any more
	err = errors.Join(err, buying.wait())
	err = errors.Join(err, support.stop())
	err = errors.Join(err, d.disconnect())
	d.log.Info("stopped")
	return err
}

// supportParts returns the parts on which buying and serving depend.
func (d *daemon) supportParts() []part {
	parts := []part{
		d.redis.Run, d.buyer.Run, d.watch,
		func(ctx context.Context) error {
			return replicas.Watch(ctx, d.pool.Live, func(r replicas.Replica) { d.noteGone(ctx, r) })
		},
		d.systemd.KeepAlive(d.manager.LastPass),
	}
	if d.embedded != nil {
		parts = append(parts, d.embedded.run)
	}
	return append(parts, d.stores.runs...)
}

// disconnect closes the connections to the providers, the stores and Redis, and ends the embedded Redis. Parts that a
// failed start had not opened yet are nil.
func (d *daemon) disconnect() (err error) {
	if d.providers != nil {
		d.providers.close()
	}
	d.stores.close()
	if d.redis != nil {
		err = d.redis.Close()
	}
	if d.embedded != nil {
		d.embedded.Close()
	}
	return err
}

// part is a function that runs one part of the daemon until ctx ends.
type part = func(ctx context.Context) error

// stage is a group of parts that start together and end together.
type stage struct {
	parts errgroup.Group
	end   context.CancelFunc // cancels the context of all parts
}

// start runs each part in a goroutine. If a part returns an error, start calls the given function.
func start(ctx context.Context, failed func(), parts ...part) *stage {
	ctx, end := context.WithCancel(ctx)
	s := &stage{end: end}
	for _, run := range parts {
		s.parts.Go(func() error {
			err := run(ctx)
			if err != nil {
				failed()
			}
			return err
		})
	}
	return s
}

// wait blocks until all parts have ended and returns the first error.
func (s *stage) wait() error {
	defer s.end()
	return s.parts.Wait()
}

// stop cancels the parts and waits until they have ended.
func (s *stage) stop() error {
	s.end()
	return s.wait()
}
