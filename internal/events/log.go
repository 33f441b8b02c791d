package events

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"poold/internal/backoff"
	"poold/internal/redisdb"
)

// add adds an event to the list, unless its topic already has the event's state. Its ID is the time in µs, or, if that
// is in use, the next free number. Without free memory, it fails before any change.
//
//	KEYS   the list, the topic
//	ARGV   the event; the state, empty = the event has no topic; the most events of the list, and of a kind by one actor;
//	       the lives of the list and of the topic in ms; the kind and the actor as the JSON of the event has them;
//	       1 = an all-clear; a state that the event does not replace
//	Reply  1 = added, 0 = known
var add = redisdb.NewScript(`
local last = redis.call('LINDEX', KEYS[1], 0)
if ARGV[2] ~= '' then
  local was = redis.call('GET', KEYS[2])
  if was == ARGV[2] or was == ARGV[9] then return 0 end
  redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[6])
  if not was and ARGV[8] == '1' then return 0 end
end
local t = redis.call('TIME')
local id = math.max(t[1] * 1000000 + t[2], last and tonumber(string.match(last, '^%d+')) + 1 or 0)
redis.call('LPUSH', KEYS[1], string.format('%.0f', id) .. ' ' .. ARGV[1])
redis.call('LTRIM', KEYS[1], 0, ARGV[3] - 1)
redis.call('PEXPIRE', KEYS[1], ARGV[5])
local equal = 0
for _, e in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do
  if string.find(e, ARGV[7], 1, true) then equal = equal + 1 end
  if equal > tonumber(ARGV[4]) then return redis.call('LREM', KEYS[1], -1, e) end
end
return 1`)

const (
	// Newest is the maximum number of events in the list.
	Newest = 1000
	// mostEqual is the maximum number of events of one kind by one actor, so that no key displaces the events of others.
	mostEqual = 50
	// Kept is how long the list keeps an event.
	Kept = 30 * 24 * time.Hour
	// remembered is how long an equal event of the same topic is dropped.
	remembered = time.Hour
	// mostQueued is the maximum number of events that wait for Redis in memory, besides the event that
	// Run writes.
	mostQueued = Newest - 1
	// lastWrite limits the time in which Run writes the queue after its context has ended.
	lastWrite = time.Second
)

// allClears are the kinds of events that say that a trouble is over. Such an event is dropped if its topic has no
// earlier event.
var allClears = []Kind{BalanceOK, BudgetOK, TargetOK}

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

// Note queues an event, which Run adds to the list. The Log chooses the ID. If the field At is zero, Note sets it to
// the present time. Note never blocks: if too many events are queued, Note drops the event. Note returns false if this
// replica has noted an equal event of the same topic in the last hour.
func (l *Log) Note(e Event) (isNew bool) {
	if e.At.IsZero() {
		e.At = time.Now()
	}
	if e.Topic != "" && l.isKnown(e) {
		return false
	}
	select {
	case l.queue <- e:
	default:
		l.log.Warn("an event is missing in the list, because too many wait for redis", "event", e.Text)
	}
	return true
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
	e.Text = strings.ToValidUTF8(e.Text[:min(len(e.Text), longestText)], "")
	e.At = e.At.UTC().Truncate(time.Millisecond)
	body, _ := json.Marshal(e) // of texts and a time: no error is possible
	actor, _ := json.Marshal(e.Actor)
	keys := []string{l.key(), l.db.Prefix + ":event:{events}:" + e.Topic}
	return add.Run(ctx, l.db.Slow, keys, body, e.State, Newest, mostEqual, Kept.Milliseconds(),
		max(remembered, e.Lasts).Milliseconds(), `"kind":"`+string(e.Kind)+`","actor":`+string(actor),
		slices.Contains(allClears, e.Kind), e.Unless).Err()
}

func (l *Log) key() string { return l.db.Prefix + ":events:{events}" }

// Recent returns all kept events, at most Newest, the newest first.
func (l *Log) Recent(ctx context.Context) ([]Event, error) {
	members, err := l.db.Slow.LRange(ctx, l.key(), 0, -1).Result()
	if err != nil {
		return nil, err
	}
	var list []Event
	for _, member := range members {
		var e Event
		id, body, _ := strings.Cut(member, " ")
		if json.Unmarshal([]byte(body), &e) == nil && time.Since(e.At) <= Kept {
			e.ID = id
			list = append(list, e)
		}
	}
	return list, nil
}
