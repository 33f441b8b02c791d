package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
)

// stopGrace is how long the port stays open after a stop began, with /readyz
// answering 503, so that balancers look elsewhere before connections are refused.
const stopGrace = time.Second

// drainLimit is how long requests in flight may take after the grace.
const drainLimit = 10 * time.Second

// run starts the daemon, waits until ctx ends or a part of the daemon fails, and stops it. Start
// and stop are the stages of this file, in the order of this function.
func (d *daemon) run(ctx context.Context, hangups <-chan os.Signal) error {
	working, failed := context.WithCancel(ctx)
	defer failed()
	// Each part ends in its own stage of the stop, not when ctx does.
	lasting := context.WithoutCancel(ctx)

	d.configure(ctx)
	support := d.startSupport(lasting, failed)
	noting := start(lasting, failed, append(d.history.notes, d.solver.KeepCounts)...)
	buying := d.startBuying(lasting, failed, hangups)
	serving := d.startServing(lasting, failed)
	d.greet(d.file.Current())

	<-working.Done()
	d.log.Info("stopping")
	buying.end() // no more orders; a submit in flight continues up to its own limit
	d.turnAway()
	if ctx.Err() != nil { // else a part failed, and clients need no time to leave
		d.keepPortOpen()
	}
	err := d.drain(lasting)
	err = errors.Join(err, serving.wait())
	err = errors.Join(err, noting.stop()) // no caller is left
	err = errors.Join(err, buying.wait())
	err = errors.Join(err, support.stop())
	err = errors.Join(err, d.disconnect())
	d.log.Info("stopped")
	return err
}

// configure applies the file's Set, and from now on the Set of each reload.
func (d *daemon) configure(ctx context.Context) {
	d.apply(ctx, d.file.Current())
	d.file.OnApply(d.reapply)
}

// startSupport starts the parts that buying and serving need: the health checks of Redis and of the
// database of claims, the status and its stream, the buyer's duties, the leases of clients' tasks,
// the history, and the embedded Redis and provider.
func (d *daemon) startSupport(ctx context.Context, failed func()) *stage {
	parts := []part{d.store.Run, d.status.Run, d.feed.Run, d.buyer.Run, d.tasks.Run, d.providers.simulated.run}
	if d.embedded != nil {
		parts = append(parts, d.embedded.run)
	}
	if d.claims.run != nil {
		parts = append(parts, d.claims.run)
	}
	return start(ctx, failed, append(parts, d.history.runs...)...)
}

// startBuying starts the parts that place orders: the workers, the solves on demand, and the
// reloads, which give the workers other targets.
func (d *daemon) startBuying(ctx context.Context, failed func(), hangups <-chan os.Signal) *stage {
	return start(ctx, failed, d.manager.Run, d.solver.Run, d.file.Run, func(ctx context.Context) error {
		return d.reloadOnHangup(ctx, hangups)
	})
}

// startServing starts to answer requests, until drain.
func (d *daemon) startServing(ctx context.Context, failed func()) *stage {
	return start(ctx, failed, func(context.Context) error {
		if err := d.http.Serve(d.listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serving: %w", err)
		}
		return nil
	})
}

// turnAway makes /readyz answer 503, refuses new requests for a token and answers the pending
// callers.
func (d *daemon) turnAway() {
	d.server.Stopping()
	d.store.EndWaits()
}

// keepPortOpen gives balancers the time to notice /readyz.
func (d *daemon) keepPortOpen() { time.Sleep(stopGrace) }

// drain closes the port, waits for requests in flight, and cuts off those that take longer than
// drainLimit.
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
	if d.claims.close != nil { // nil if the start failed before
		d.claims.close()
	}
	if d.history.close != nil {
		d.history.close()
	}
	err := d.store.Close()
	if d.embedded != nil {
		d.embedded.Close()
	}
	return err
}

// part is a part of the daemon: it works until ctx ends.
type part = func(ctx context.Context) error

// stage is parts that start together and end together.
type stage struct {
	parts errgroup.Group
	end   context.CancelFunc // asks the parts to end
}

// start starts parts; failed is called if one of them ends with an error.
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

// wait returns when all parts have ended, with the first error of them.
func (s *stage) wait() error {
	defer s.end()
	return s.parts.Wait()
}

// stop ends the parts and waits for them.
func (s *stage) stop() error {
	s.end()
	return s.wait()
}
