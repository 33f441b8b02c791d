package events

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

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
	// normalKept is how long Redis remembers the normal state of a topic, or the last reload. Redis
	// remembers any other state for the duration `kept`. All replicas must report the same change
	// within the duration `normalKept`.
	normalKept = 10 * time.Minute
	// The id of an event is perMs * Unix ms + a number below perMs. So events in the same ms have
	// different ids.
	perMs = 1000
	// mostQueued is the maximum number of events that wait for Redis in memory.
	mostQueued = 1000
	// lastWrite limits the time in which Run writes the queue after its context has ended.
	lastWrite = time.Second
)

// retries defines the pauses between two attempts to write an event.
var retries = backoff.Doubling{First: 250 * time.Millisecond, Most: 5 * time.Second}

// Log writes and reads the list of events. It is safe for concurrent use.
type Log struct {
	db  *redisdb.DB
	log *slog.Logger

	bell    chan struct{} // signals that the queue is not empty; capacity 1
	mu      sync.Mutex
	queue   []Event // the oldest first
	dropped int     // number of events dropped since the last log line about dropped events

	number int // number of events that Run has tried to write
}

// NewLog returns a Log that uses db. The caller opens, runs and closes db.
func NewLog(db *redisdb.DB, log *slog.Logger) *Log {
	db.Declare(map[string]string{"events": "zset", "event": "string"})
	return &Log{db: db, log: log, bell: make(chan struct{}, 1)}
}

// Note queues an event, which Run adds to the list. The Log chooses the ID. If the field At is
// zero, Note sets it to the present time. Note never blocks: if too many events are queued, Note
// drops the event. The caller must not change e.Details afterwards.
func (l *Log) Note(e Event) {
	if e.At.IsZero() {
		e.At = time.Now()
	}
	l.mu.Lock()
	if len(l.queue) < mostQueued {
		l.queue = append(l.queue, e)
	} else {
		l.dropped++
	}
	l.mu.Unlock()
	select {
	case l.bell <- struct{}{}:
	default:
	}
}

// Run writes the events until ctx ends. Afterwards Run writes the remaining events for at most a
// second.
func (l *Log) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-l.bell:
			for failures := 1; ; failures++ {
				err := l.write(ctx)
				if err == nil || ctx.Err() != nil {
					break
				}
				if failures == 1 && !errors.Is(err, redisdb.ErrDown) { // package redisdb logs an outage
					l.log.Warn("events cannot be stored; they wait in memory", "err", err)
				}
				_ = retries.Wait(ctx, failures)
			}
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWrite)
	defer cancel()
	_ = l.write(last)
	return nil
}

// write writes the queued events. It stops at the first event that Redis does not accept.
func (l *Log) write(ctx context.Context) error {
	for {
		l.mu.Lock()
		queue := l.queue
		l.mu.Unlock()
		if len(queue) == 0 {
			l.logDropped()
			return nil
		}
		if err := l.add(ctx, clean(queue[0])); err != nil {
			return err
		}
		l.mu.Lock()
		l.queue = l.queue[1:]
		l.mu.Unlock()
	}
}

// logDropped logs how many events were dropped, once after each outage.
func (l *Log) logDropped() {
	l.mu.Lock()
	dropped := l.dropped
	l.dropped = 0
	l.mu.Unlock()
	if dropped > 0 {
		l.log.Warn("events are missing in the list, because too many waited for redis", "events", dropped)
	}
}

// stored is the form of an event in Redis. It lacks the ID, because the script chooses the ID.
type stored struct {
	Event
	ID    *struct{} `json:"id,omitempty"` // this field and At hide the fields of Event
	At    *struct{} `json:"at,omitempty"`
	Topic string    `json:"topic,omitempty"`
	State string    `json:"state,omitempty"`
}

// add writes one event.
func (l *Log) add(ctx context.Context, e Event) error {
	body, err := json.Marshal(stored{Event: e, Topic: e.Topic, State: e.State})
	if err != nil {
		return fmt.Errorf("events: %w", err) // impossible: an event has only texts
	}
	remembered := kept
	if e.State == "" || e.Kind == ReloadApplied || e.Kind == ReloadRefused {
		remembered = normalKept
	}
	hasTopic, late := 0, 0
	if e.Topic != "" {
		hasTopic = 1
	}
	if e.Kind == RedisDown {
		late = 1 // replicas store this event after the outage, when another replica may already have stored the end
	}
	l.number++
	_, err = l.db.CallNumber(ctx, add, redisdb.Keys{"events": l.key(), "topic": l.db.Prefix + ":event:{events}:" + e.Topic}, redisdb.Args{
		"body": string(body), "has_topic": hasTopic, "state": e.State, "age_ms": max(0, time.Since(e.At)),
		"late": late, "number": l.number % perMs, "newest": Newest, "kept_ms": kept, "remembered_ms": remembered,
	})
	return err
}

func (l *Log) key() string { return l.db.Prefix + ":events:{events}" }

// Recent returns events, newest first. The argument limit is the maximum number of events. If the
// argument before is the ID of an event, Recent returns only events with lower IDs; "" = all
// events.
func (l *Log) Recent(ctx context.Context, limit int, before string) ([]Event, error) {
	upTo := "+inf"
	if before != "" {
		upTo = "(" + before
	}
	members, err := l.db.Slow.ZRangeArgs(ctx, redis.ZRangeArgs{
		Key: l.key(), ByScore: true, Rev: true, Start: upTo, Stop: strconv.FormatInt(time.Now().Add(-kept).UnixMilli()*perMs, 10), Count: int64(limit),
	}).Result()
	if err != nil {
		return nil, l.db.Explain(ctx, err, []string{l.key()})
	}
	list := make([]Event, 0, len(members))
	for _, member := range members {
		if e, ok := parse(member); ok {
			list = append(list, e)
		}
	}
	return list, nil
}

// parse reads a member of the list. It returns false for a member that another program wrote.
func parse(member string) (Event, bool) {
	id, body, _ := strings.Cut(member, " ")
	number, err := strconv.ParseInt(id, 10, 64)
	var s stored
	if err != nil || json.Unmarshal([]byte(body), &s) != nil {
		return Event{}, false
	}
	e := s.Event
	e.ID, e.At, e.Topic, e.State = id, time.UnixMilli(number/perMs).UTC(), s.Topic, s.State
	return e, true
}
