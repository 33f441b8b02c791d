package redisdb

import (
	"context"
	"time"
)

// Channel returns the name of the channel by which replicas notify each other of changes.
func (db *DB) Channel() string { return db.Prefix + ":wake" }

// Announce publishes a message on the channel. If this fails, Announce only logs the error: other
// replicas find the change a little later, by polling.
func (db *DB) Announce(ctx context.Context, message string) {
	if err := db.Slow.Publish(ctx, db.Channel(), message).Err(); err != nil {
		db.log.DebugContext(ctx, "change not announced to other replicas", "err", err)
	}
}

// Listen calls the function onMessage with each message of the channel, one at a time, until ctx
// ends. A message that is sent while there is no connection is lost.
func (db *DB) Listen(ctx context.Context, onMessage func(message string)) {
	messages := db.Slow.Subscribe(ctx, db.Channel())
	defer func() { _ = messages.Close() }()
	again := time.NewTicker(reviewEvery)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
			// The right to subscribe may have been missing until now. A repeated SUBSCRIBE is a
			// no-op.
			_ = messages.Subscribe(ctx, db.Channel())
		case message, ok := <-messages.Channel():
			if !ok {
				return
			}
			onMessage(message.Payload)
		}
	}
}
