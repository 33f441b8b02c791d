package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"poold/internal/captcha"
	"poold/internal/events"
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

	d.configure(ctx)
	support := d.startSupport(lasting, failed)
	d.redis.AwaitProbe(working) // so that /readyz never answers 200 without Redis
	d.noteReplica(events.ReplicaStarted, "started")
	noting := start(lasting, failed, append(d.history.notes, d.solver.KeepCounts, d.events.Run)...)
	buying := d.startBuying(lasting, failed, hangups)
	serving := d.startServing(lasting, failed)
	d.greet(d.file.Current())
	d.systemd.Ready()

	<-working.Done()
	d.log.Info("stopping")
	d.systemd.Stopping()
	d.noteReplica(events.ReplicaStopped, "stops")
	buying.end() // no new orders; a call to a provider that is in flight continues, at most until its timeout
	d.turnAway()
	if ctx.Err() != nil { // if a part has failed instead, the port closes without this wait
		d.keepPortOpen()
	}
	err := d.drain(lasting)
	err = errors.Join(err, serving.wait())
	err = errors.Join(err, noting.stop()) // no request is in flight any more
	err = errors.Join(err, buying.wait())
	err = errors.Join(err, support.stop())
	err = errors.Join(err, d.disconnect())
	d.log.Info("stopped")
	return err
}

// configure applies the file's Set, and makes later reloads apply their new Sets.
func (d *daemon) configure(ctx context.Context) {
	d.apply(ctx, d.file.Current())
	d.file.OnApply(d.reapply)
}

// startSupport starts the parts on which buying and serving depend: the health checks of Redis and
// of the database of claims, the status, the buyer's background work, the clients' tasks, the
// history, the embedded Redis, the simulated provider, and the messages to systemd.
func (d *daemon) startSupport(ctx context.Context, failed func()) *stage {
	parts := []part{d.redis.Run, d.ids.Keep, d.status.Run, d.buyer.Run, d.outcomes.Run, d.tasks.Run, d.roster.Run, d.providers.simulated.run}
	if d.embedded != nil {
		parts = append(parts, d.embedded.run)
	}
	parts = append(parts, func(ctx context.Context) error {
		d.redis.Listen(ctx, func(key string) { d.solver.Wake(captcha.ID(key)) })
		return nil
	})
	if d.claims.run != nil {
		parts = append(parts, d.claims.run)
	}
	parts = append(parts, d.systemd.KeepStatus(d.status.Brief), d.systemd.KeepAlive(d.manager.LastTurn))
	return start(ctx, failed, slices.Concat(parts, d.history.runs)...)
}

// startBuying starts the parts that place orders: the workers and the solves on demand. It also
// starts the reloads, because they change the targets of the workers.
func (d *daemon) startBuying(ctx context.Context, failed func(), hangups <-chan os.Signal) *stage {
	return start(ctx, failed, d.manager.Run, d.solver.Run, d.file.Run, func(ctx context.Context) error {
		return d.reloadOnHangup(ctx, hangups)
	})
}

// startServing starts the HTTP server, which runs until drain shuts it down.
func (d *daemon) startServing(ctx context.Context, failed func()) *stage {
	return start(ctx, failed, func(context.Context) error {
		if err := d.http.Serve(d.listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serving: %w", err)
		}
		return nil
	})
}

// turnAway makes /readyz answer 503, refuses new requests for a token, and ends the waits of pending
// callers.
func (d *daemon) turnAway() {
	d.server.Stopping()
	d.pool.EndWaits()
}

// keepPortOpen waits, so that load balancers can notice that /readyz answers 503.
func (d *daemon) keepPortOpen() { time.Sleep(stopGrace) }

// drain closes the port and waits for the requests in flight. After drainLimit it closes their
// connections.
func (d *daemon) drain(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, drainLimit)
	defer cancel()
	if err := d.http.Shutdown(limited); err != nil {
		return errors.Join(fmt.Errorf("requests did not end within %s: %w", drainLimit, err), d.http.Close())
	}
	return nil
}

// disconnect closes the connections to the providers, the stores and Redis, and ends the embedded
// Redis.
func (d *daemon) disconnect() error {
	d.providers.close()
	if d.claims.close != nil { // nil if the start failed before openClaims
		d.claims.close()
	}
	if d.history.close != nil {
		d.history.close()
	}
	err := d.redis.Close()
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
