package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"poold/internal/history"
)

// mostEntries limits how many entries of the audit are kept of one key, the newest.
const mostEntries = 10_000

// WriteEntries is history.Audit's. An entry that is there already, with its text, changes
// nothing, nor does one that is older than the audit is kept.
func (s *Store) WriteEntries(ctx context.Context, batch []history.Entry) error {
	if len(batch) == 0 {
		return nil
	}
	k := keysOf(s.db)
	var keys []string
	args := []any{s.o.KeepAudit.Milliseconds(), mostEntries}
	for _, e := range batch {
		keys = append(keys, k.audit+hashed(e.Key), k.usage+dateOf(e.At))
		// A space sorts before each character of an ID, so that lines of one millisecond are
		// in the order of their IDs.
		args = append(args, e.At.UnixMilli(), e.ID+" "+encodeEntry(e))
		args = appendFigures(args, keyFigures(e))
	}
	_, err := s.db.Eval(ctx, scripts.Get("archive_lines"), keys, args...)
	return failed(ctx, err)
}

// Entries is history.Audit's. The newest 10,000 of each key are kept.
func (s *Store) Entries(ctx context.Context, key string, q history.Query) (history.Entries, error) {
	from, to := since(q.From, s.o.KeepAudit), q.To
	if behind := q.Before.Ended.Add(time.Millisecond); !q.Before.Ended.IsZero() && (to.IsZero() || behind.Before(to)) {
		to = behind
	}
	decode := func(l line) (history.Entry, error) { return decodeEntry(key, l) }
	// Mostly one look is enough. If not, a longer one begins anew, so that both see one moment.
	for most := q.Limit + 2; ; most *= 4 {
		lines, err := s.lines(ctx, keysOf(s.db).audit+hashed(key), from, to, most, " ")
		if err != nil {
			return history.Entries{}, failed(ctx, err)
		}
		list, more, err := matching(lines, q, decode, func(e history.Entry) string { return e.Target })
		if err != nil || more || len(lines) < most {
			return history.Entries{List: list, More: more}, err
		}
	}
}

// KeyDay is history.Audit's.
func (s *Store) KeyDay(ctx context.Context, day time.Time) (map[string]history.KeyFigures, error) {
	found, err := s.figures(ctx, keysOf(s.db).usage+dateOf(day))
	if err != nil {
		return nil, failed(ctx, err)
	}
	keys := map[string]history.KeyFigures{}
	for name, n := range found {
		fields, err := unescape(strings.Split(name, "|"))
		switch {
		case err != nil:
			return nil, err
		case len(fields) == 2:
			keys[fields[0]] = keys[fields[0]].Plus(keyFigure(fields[1], n))
		}
	}
	return keys, nil
}

// The names of a key's figures in Redis, beside spent.
const (
	handedOut = "handed_out"
	bought    = "bought"
	accepted  = "accepted"
	rejected  = "rejected"
)

// keyFigures are what an entry adds to those of its key.
func keyFigures(e history.Entry) map[string]int64 {
	f := e.Figures()
	of := map[string]int64{}
	for name, n := range map[string]int64{
		handedOut: f.HandedOut, bought: f.Bought, accepted: f.Accepted, rejected: f.Rejected, spent: f.Spent, unpriced: f.Unpriced,
	} {
		if n != 0 {
			of[escape(e.Key, name)] = n
		}
	}
	return of
}

// keyFigure is one figure, by its name; those of another version are ignored.
func keyFigure(name string, n int64) (f history.KeyFigures) {
	switch name {
	case handedOut:
		f.HandedOut = n
	case bought:
		f.Bought = n
	case accepted:
		f.Accepted = n
	case rejected:
		f.Rejected = n
	case spent:
		f.Spent = n
	case unpriced:
		f.Unpriced = n
	}
	return f
}

// encodeEntry writes an entry without its ID, time and key, which line and list have.
func encodeEntry(e history.Entry) string {
	return escape(string(e.Action), e.Target, e.Token, e.Source, e.Image, strconv.FormatInt(e.Price, 10))
}

// decodeEntry is the inverse of encodeEntry.
func decodeEntry(key string, l line) (history.Entry, error) {
	f, err := unescape(strings.Split(l.text, "|"))
	if err != nil || len(f) != 6 {
		return history.Entry{}, errors.Join(errors.New("history: an entry of the audit in Redis cannot be read"), err)
	}
	price, err := strconv.ParseInt(f[5], 10, 64)
	if err != nil {
		return history.Entry{}, fmt.Errorf("history: an entry of the audit in Redis cannot be read: %w", err)
	}
	return history.Entry{
		ID: l.id, At: l.at, Key: key, Action: history.Action(f[0]), Target: f[1], Token: f[2], Source: f[3], Image: f[4], Price: price,
	}, nil
}
