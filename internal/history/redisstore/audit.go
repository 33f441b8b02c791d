package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"poold/internal/history"
	"poold/internal/pool"
)

// WriteEntries is history.Audit's.
func (s *Store) WriteEntries(ctx context.Context, batch []history.Entry) error {
	lines := make([]pool.Line, len(batch))
	for i, e := range batch {
		lines[i] = pool.Line{ID: e.ID, Name: e.Key, At: e.At, Text: encodeEntry(e), Figures: keyFigures(e)}
	}
	return failed(ctx, s.archive.AddLines(ctx, lines, s.o.KeepAudit))
}

// Entries is history.Audit's. The newest 10,000 of each key are kept.
func (s *Store) Entries(ctx context.Context, key string, q history.Query) (history.Entries, error) {
	from, to := since(q.From, s.o.KeepAudit), q.To
	if behind := q.Before.Ended.Add(time.Millisecond); q.Before != (history.Position{}) && (to.IsZero() || behind.Before(to)) {
		to = behind
	}
	// Mostly one look is enough. Where it is not, a longer one is a look at one moment again.
	for most := q.Limit + 2; ; most *= 4 {
		lines, err := s.archive.Lines(ctx, key, from, to, most)
		if err != nil {
			return history.Entries{}, failed(ctx, err)
		}
		if found, err := entries(lines, q); err != nil || found.More || len(lines) < most {
			return found, err
		}
	}
}

// entries is what a query finds among the newest lines.
func entries(lines []pool.Line, q history.Query) (found history.Entries, _ error) {
	for _, l := range lines {
		if q.Before != (history.Position{}) && !before(l.At, l.ID, q.Before) {
			continue
		}
		e, err := decodeEntry(l)
		if err != nil {
			return history.Entries{}, err
		}
		if q.Targets != nil && !slices.Contains(q.Targets, e.Target) {
			continue
		}
		if len(found.List) == q.Limit {
			found.More = true
			break
		}
		found.List = append(found.List, e)
	}
	return found, nil
}

// KeyDay is history.Audit's.
func (s *Store) KeyDay(ctx context.Context, day time.Time) (map[string]history.KeyFigures, error) {
	found, err := s.archive.Usage(ctx, day)
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

// encodeEntry writes an entry but for its ID, time and key, which stand beside it.
func encodeEntry(e history.Entry) string {
	return escape(string(e.Action), e.Target, e.Token, e.Source, e.Image, strconv.FormatInt(e.Price, 10))
}

// decodeEntry is the inverse of encodeEntry.
func decodeEntry(l pool.Line) (history.Entry, error) {
	f, err := unescape(strings.Split(l.Text, "|"))
	if err != nil || len(f) != 6 {
		return history.Entry{}, errors.Join(errors.New("history: an entry of the audit in Redis cannot be read"), err)
	}
	price, err := strconv.ParseInt(f[5], 10, 64)
	if err != nil {
		return history.Entry{}, fmt.Errorf("history: an entry of the audit in Redis cannot be read: %w", err)
	}
	return history.Entry{
		ID: l.ID, At: l.At, Key: l.Name, Action: history.Action(f[0]), Target: f[1], Token: f[2], Source: f[3], Image: f[4], Price: price,
	}, nil
}
