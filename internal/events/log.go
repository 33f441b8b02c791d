package events

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"poold/internal/backoff"
	"poold/internal/redisdb"
)

//go:embed lua/*.lua
var sources embed.FS

var add = redisdb.LoadScripts(sources, nil).Get("event_add")

const (
	// Newest is the maximum number of events in the list.
	Newest = 1000
	// kept is how long the list keeps an event.
	kept = 30 * 24 * time.Hour
	// remembered is how long an equal event of the same topic is dropped.
	remembered = time.Hour
	// mostQueued is the maximum number of events that wait for Redis in memory, besides the one that
	// Run tries to write.
	mostQueued = Newest - 1
	// lastWrite limits the time in which Run writes the queue after its context has ended.
	lastWrite = time.Second
)

// retries defines the pauses between two attempts to write an event.
var retries = backoff.Doubling{First: 250 * time.Millisecond, Most: 5 * time.Second}

// Log writes and reads the list of events. It is safe for concurrent use.
type Log struct {
	db    *redisdb.DB
	log   *slog.Logger
	queue chan Event

	mu    sync.Mutex
	noted map[string]Event // the last event of each topic; guarded by mu
}

// NewLog returns a Log that uses db. The caller opens, runs and closes db.
func NewLog(db *redisdb.DB, log *slog.Logger) *Log {
	return &Log{db: db, log: log, queue: make(chan Event, mostQueued), noted: map[string]Event{}}
}

// Note queues an event, which Run adds to the list. The Log chooses the ID. If the field At is
// zero, Note sets it to the present time. Note never blocks: if too many events are queued, Note
// drops the event. The caller must not change e.Details afterwards.
func (l *Log) Note(e Event) {
	if e.At.IsZero() {
		e.At = time.Now()
	}
	if e.Topic != "" && l.isKnown(e) {
		return
	}
	select {
	case l.queue <- e:
	default:
		l.log.Warn("an event is missing in the list, because too many wait for redis", "event", e.Text)
	}
}

// isKnown reports whether this replica noted an equal event of the topic within an hour.
func (l *Log) isKnown(e Event) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := l.noted[e.Topic]
	if last.State == e.State && e.At.Sub(last.At) < remembered {
		return true
	}
	l.noted[e.Topic] = e
	return false
}

// Run writes the events until ctx ends. Afterwards Run writes the remaining events for at most a
// second.
func (l *Log) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case e := <-l.queue:
			for failures := 1; ; failures++ {
				err := l.add(context.WithoutCancel(ctx), e)
				if err == nil || ctx.Err() != nil {
					break
				}
				if failures == 1 && !errors.Is(err, redisdb.ErrDown) { // package redisdb logs an outage
					l.log.Warn("an event cannot be stored; it waits in memory", "err", err)
				}
				_ = retries.Wait(ctx, failures)
			}
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWrite)
	defer cancel()
	for len(l.queue) > 0 && l.add(last, <-l.queue) == nil {
	}
	return nil
}

// add writes one event.
func (l *Log) add(ctx context.Context, e Event) error {
	e = clean(e)
	e.At = e.At.UTC().Truncate(time.Millisecond)
	body, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("events: %w", err) // impossible: an event has only texts
	}
	_, err = l.db.CallNumber(ctx, add, redisdb.Keys{"events": l.key(), "topic": l.db.Prefix + ":event:{events}:" + e.Topic}, redisdb.Args{
		"body": string(body), "state": e.State, "newest": Newest, "kept_ms": kept, "remembered_ms": remembered,
	})
	return err
}

func (l *Log) key() string { return l.db.Prefix + ":events:{events}" }

// Recent returns events, newest first. The argument limit is the maximum number of events. If the
// argument before is the ID of an event, Recent returns only events with lower IDs; "" = all
// events.
func (l *Log) Recent(ctx context.Context, limit int, before string) ([]Event, error) {
	members, err := l.db.Slow.LRange(ctx, l.key(), 0, -1).Result()
	if err != nil {
		return nil, err
	}
	var list []Event
	for _, member := range members {
		var e Event
		id, body, _ := strings.Cut(member, " ")
		older := before == "" || len(id) < len(before) || len(id) == len(before) && id < before
		if !older || json.Unmarshal([]byte(body), &e) != nil || time.Since(e.At) > kept {
			continue
		}
		if e.ID = id; len(list) < limit {
			list = append(list, e)
		}
	}
	return list, nil
}
