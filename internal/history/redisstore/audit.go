package redisstore

import (
	"context"
	"time"

	"poold/internal/history"
)

// mostEntries limits the audit entries of a caller's key. Older entries are removed.
const mostEntries = 10_000

// group is a part of a batch: entries of one key and one day whose figures are equal. The figures of
// its new entries are the figures of one entry times their number.
type group struct {
	key     string
	day     string
	figures history.KeyFigures
}

// WriteEntries implements history.Audit. It ignores an entry that already exists with the same text,
// and an entry that is older than Options.KeepAudit.
func (s *Store) WriteEntries(ctx context.Context, batch []history.Entry) error {
	if len(batch) == 0 {
		return nil
	}
	var groups []group
	lines := map[group][]any{}
	for _, e := range batch {
		g := group{e.Key, dateOf(e.At), e.Figures()}
		if lines[g] == nil {
			groups = append(groups, g)
		}
		// A space sorts before all characters of IDs. Entries of the same millisecond are therefore in
		// the order of their IDs.
		lines[g] = append(lines[g], e.At.UnixMilli(), e.ID+" "+encode(e.Columns()[3:]))
	}
	k := keysOf(s.db)
	keys := make([]string, 0, 2*len(groups))
	args := make([]any, 0, 2+2*len(batch)+8*len(groups))
	args = append(args, s.o.KeepAudit.Milliseconds(), mostEntries)
	for _, g := range groups {
		keys = append(keys, k.audit+hashed(g.key), k.usage+g.day)
		figures := figuresOf(g.figures.Counts(), []string{g.key})
		args = append(append(append(args, len(lines[g])/2, len(figures)/2), lines[g]...), figures...)
	}
	_, err := s.db.Eval(ctx, scripts.Get("archive_lines"), keys, args...)
	return storeError(ctx, err)
}

// Entries implements history.Audit. It returns only entries that are among the newest 10,000 of the
// key.
func (s *Store) Entries(ctx context.Context, key string, q history.Query) (history.Entries, error) {
	from, to := laterStart(q.From, s.o.KeepAudit), q.To
	if behind := q.Before.Ended.Add(time.Millisecond); !q.Before.Ended.IsZero() && (to.IsZero() || behind.Before(to)) {
		to = behind
	}
	decode := func(l line) (history.Entry, error) {
		e := history.Entry{ID: l.id, At: l.at, Key: key}
		err := decode(l.text, e.Columns()[3:])
		return e, err
	}
	// One read is usually enough. If it is not, the next read is longer and starts again at the first
	// entry, so that all returned entries are from one state of the list.
	for maximum := q.Limit + 2; ; maximum *= 4 {
		lines, err := s.lines(ctx, keysOf(s.db).audit+hashed(key), from, to, maximum, " ")
		if err != nil {
			return history.Entries{}, storeError(ctx, err)
		}
		list, more, err := selectItems(lines, q, decode, func(e history.Entry) string { return e.Target })
		if err != nil || more || len(lines) < maximum {
			return history.Entries{List: list, More: more}, err
		}
	}
}

// KeyDay implements history.Audit.
func (s *Store) KeyDay(ctx context.Context, day time.Time) (map[string]history.KeyFigures, error) {
	found, err := s.figures(ctx, keysOf(s.db).usage+dateOf(day))
	if err != nil {
		return nil, storeError(ctx, err)
	}
	keys := map[string]history.KeyFigures{}
	for name, n := range found {
		fields, err := unescape(name)
		switch {
		case err != nil:
			return nil, err
		case len(fields) == 2:
			f := keys[fields[0]]
			add(f.Counts(), fields[1], n)
			keys[fields[0]] = f
		}
	}
	return keys, nil
}
