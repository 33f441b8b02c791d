package outcomes

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/captcha"
)

const (
	// streamLength is the number of entries that a stream keeps at least. Older entries hardly count in
	// an estimate.
	streamLength = 500
	// keptFor is how long a stream is kept after its last entry.
	keptFor = 7 * 24 * time.Hour
	// atOnce is the maximum number of entries that one read returns for each stream.
	atOnce = 1000
	// callTime limits a write or a read.
	callTime = 3 * time.Second
)

// entry is an entry of a stream.
type entry struct {
	pair
	id     string    // "" = not written yet
	at     time.Time // time of Redis' clock
	report bool      // a caller's report; otherwise the end of an order
	good   bool      // the order was solved, or the token was accepted
	lead   time.Duration
	caller string
}

func (b *Book) key(p pair) string {
	return b.db.Prefix + ":outcomes:{" + p.provider + "}:" + string(p.kind)
}

func (e *entry) fields() map[string]any {
	good := "0"
	if e.good {
		good = "1"
	}
	switch {
	case e.report:
		return map[string]any{"accepted": good, "caller": e.caller}
	case e.good:
		return map[string]any{"solved": good, "ms": e.lead.Milliseconds()}
	}
	return map[string]any{"solved": good}
}

// readEntry returns the entry of a message. The result is false if another program wrote the message.
func readEntry(p pair, m redis.XMessage) (e entry, ok bool) {
	text := func(field string) string {
		s, _ := m.Values[field].(string)
		return s
	}
	at, _, _ := strings.Cut(m.ID, "-")
	unix, err := strconv.ParseInt(at, 10, 64)
	e = entry{pair: p, id: m.ID, at: time.UnixMilli(unix), caller: text("caller")}
	word := text("solved")
	if word == "" {
		e.report, word = true, text("accepted")
	}
	e.good = word == "1"
	if ms, bad := strconv.ParseInt(text("ms"), 10, 64); bad == nil {
		e.lead = time.Duration(ms) * time.Millisecond
	}
	return e, err == nil && (word == "0" || word == "1") && (!e.report || e.caller != "")
}

// write appends the pending entries to their streams. Entries that Redis does not accept are dropped.
func (b *Book) write(ctx context.Context) {
	b.mu.Lock()
	due := b.pending
	b.pending = nil
	b.mu.Unlock()
	if len(due) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	pipe := b.db.Slow.Pipeline()
	keys := map[string]bool{}
	for _, e := range due {
		key := b.key(e.pair)
		pipe.XAdd(ctx, &redis.XAddArgs{Stream: key, MaxLen: streamLength, Approx: true, Values: e.fields()})
		keys[key] = true
	}
	for key := range keys {
		pipe.PExpire(ctx, key, keptFor)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		b.log.Debug("outcomes of orders are not recorded", "entries", len(due), "err", err)
	}
}

// update reads the new entries of all streams and adds them to the estimates.
func (b *Book) update(ctx context.Context) {
	b.mu.Lock()
	providers := b.providers
	b.mu.Unlock()
	if len(providers) < 2 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	var fresh []entry
	for _, p := range providers {
		entries, err := b.readNew(ctx, p.Name)
		if err != nil {
			b.log.Debug("outcomes of orders are not read", "provider", p.Name, "err", err)
		}
		fresh = append(fresh, entries...)
	}
	slices.SortStableFunc(fresh, func(a, b entry) int { return a.at.Compare(b.at) })
	for _, t := range b.learn(fresh) {
		b.onNewBest(t)
	}
}

// readNew reads the entries of a provider's streams that have not been read.
func (b *Book) readNew(ctx context.Context, provider string) ([]entry, error) {
	byKey := map[string]pair{}
	var keys, ids []string
	for _, t := range captcha.SolvableTypes() {
		p := pair{provider, t}
		key := b.key(p)
		byKey[key] = p
		keys, ids = append(keys, key), append(ids, cmp.Or(b.read[p], "0"))
	}
	streams, err := b.db.Slow.XRead(ctx, &redis.XReadArgs{Streams: append(keys, ids...), Count: atOnce, Block: -1}).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, err
	}
	var list []entry
	for _, s := range streams {
		p := byKey[s.Stream]
		for _, m := range s.Messages {
			b.read[p] = m.ID
			if e, ok := readEntry(p, m); ok {
				list = append(list, e)
			}
		}
	}
	return list, nil
}
