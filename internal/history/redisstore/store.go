package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/captcha"
	"poold/internal/history"
	"poold/internal/redisdb"
)

const (
	// mostOfSite and mostOfStatus limit the records of a site and of a status. Older records are
	// removed.
	mostOfSite   = 50
	mostOfStatus = 1000
	week         = 7 * 24 * time.Hour
)

// Options sets how long the store keeps data.
type Options struct {
	Keep      time.Duration // how long records and the figures of days are kept; 0 = 7 days
	KeepAudit time.Duration // how long audit entries and their figures are kept; 0 = 7 days
}

var (
	_ history.Store = (*Store)(nil)
	_ history.Audit = (*Store)(nil)
)

// Store implements history.Store and history.Audit.
type Store struct {
	db *redisdb.DB
	o  Options
}

// New returns a Store that uses db. The caller opens, runs and closes db.
func New(db *redisdb.DB, o Options) *Store {
	o.Keep, o.KeepAudit = cmp.Or(o.Keep, week), cmp.Or(o.KeepAudit, week)
	return &Store{db, o}
}

// Write implements history.Store.
func (s *Store) Write(ctx context.Context, batch []history.Record) error {
	if len(batch) == 0 {
		return nil
	}
	k := keysOf(s.db)
	var keys []string
	args := []any{s.o.Keep.Milliseconds(), mostOfSite, mostOfStatus}
	for _, r := range batch {
		site, ended, task, alias := hashed(r.Sitekey), strconv.FormatInt(r.Ended.UnixMilli(), 10), "", ""
		if r.Task != "" && !history.IsOrder(r.Task) {
			task, alias = r.Task, r.ID
		}
		keys = append(keys, k.mark+r.ID, k.site+site, k.status+string(r.Status()), k.day+dateOf(r.Ended), k.alias+hashed(task))
		f := r.Figures()
		figures := figuresOf(f.Counts(), []string{"type", string(r.Type)}, []string{"target", r.Target, r.Owner})
		args = append(append(args, ended, r.ID+"|"+encodeRecord(r), site+"|"+ended, alias, len(figures)/2), figures...)
	}
	_, err := s.db.Eval(ctx, scripts.Get("archive_add"), keys, args...)
	return storeError(ctx, err)
}

// Site implements history.Store. It returns only records that are among the newest 50 of the site.
func (s *Store) Site(ctx context.Context, sitekey string, q history.Query) (history.Page, error) {
	return s.page(ctx, keysOf(s.db).site+hashed(sitekey), q)
}

// Tasks implements history.Store. It returns only records that are among the newest 1,000 of the
// status.
func (s *Store) Tasks(ctx context.Context, status history.Status, q history.Query) (history.Page, error) {
	if status != history.StatusSolved && status != history.StatusError {
		return history.Page{}, fmt.Errorf("history: no record has the status %q", status)
	}
	return s.page(ctx, keysOf(s.db).status+string(status), q)
}

func (s *Store) page(ctx context.Context, key string, q history.Query) (history.Page, error) {
	lines, err := s.lines(ctx, key, laterStart(q.From, s.o.Keep), q.To, 0, "|")
	if err != nil {
		return history.Page{}, storeError(ctx, err)
	}
	records, more, err := selectItems(lines, q, decodeRecord, func(r history.Record) string { return r.Target })
	return history.Page{Records: records, More: more}, err
}

// laterStart returns the later of two times. The first is the argument `from`. The second is the
// present time of this process' clock minus the argument `keep`.
func laterStart(from time.Time, keep time.Duration) time.Time {
	if oldest := time.Now().Add(-keep); from.Before(oldest) {
		return oldest
	}
	return from
}

// line is a member of a stored list: a record or an entry, with its time.
type line struct {
	id   string
	at   time.Time
	text string
}

// lines returns the lines of a list whose times are in [from, to), newest first. A zero time means no
// limit. The argument maximum limits the number of lines; 0 = no limit. Lines of the same millisecond
// are in descending order of their IDs. The argument separator is the text between the ID and the
// rest of a line.
func (s *Store) lines(ctx context.Context, key string, from, to time.Time, maximum int, separator string) ([]line, error) {
	first, last := "-inf", "+inf"
	if !from.IsZero() {
		first = strconv.FormatInt(ceilMilli(from), 10)
	}
	if !to.IsZero() {
		last = "(" + strconv.FormatInt(ceilMilli(to), 10)
	}
	members, err := s.db.Slow.ZRangeArgsWithScores(ctx, redis.ZRangeArgs{
		Key: key, Start: last, Stop: first, ByScore: true, Rev: true, Count: int64(maximum),
	}).Result()
	if err != nil {
		return nil, err
	}
	found := make([]line, len(members))
	for i, m := range members {
		text, _ := m.Member.(string)
		found[i].at = time.UnixMilli(int64(m.Score)).UTC()
		found[i].id, found[i].text, _ = strings.Cut(text, separator)
	}
	return found, nil
}

func ceilMilli(at time.Time) int64 { return at.Add(time.Millisecond - time.Nanosecond).UnixMilli() }

// selectItems returns the first q.Limit items that a query selects, and whether more items follow.
func selectItems[T any](lines []line, q history.Query, decode func(line) (T, error), target func(T) string) (found []T, more bool, _ error) {
	for _, l := range lines {
		if !q.Before.Ended.IsZero() && !follows(l, q.Before) {
			continue
		}
		item, err := decode(l)
		if err != nil {
			return nil, false, err
		}
		if q.Targets != nil && !slices.Contains(q.Targets, target(item)) {
			continue
		}
		if len(found) == q.Limit {
			return found, true, nil
		}
		found = append(found, item)
	}
	return found, false, nil
}

// follows reports whether a line comes after a position in a list that begins with the newest line.
func follows(l line, p history.Position) bool {
	return l.at.Before(p.Ended) || l.at.Equal(p.Ended) && l.id < p.ID
}

// Day implements history.Store.
func (s *Store) Day(ctx context.Context, day time.Time) (history.Day, error) {
	found, err := s.figures(ctx, keysOf(s.db).day+dateOf(day))
	if err != nil {
		return history.Day{}, storeError(ctx, err)
	}
	d := history.Day{Types: map[captcha.Type]history.Figures{}, Targets: map[history.Owned]history.Figures{}}
	for name, n := range found {
		fields, err := unescape(name)
		switch {
		case err != nil:
			return history.Day{}, err
		case len(fields) == 3 && fields[0] == "type":
			of := captcha.Type(fields[1])
			f := d.Types[of]
			add(f.Counts(), fields[2], n)
			d.Types[of] = f
		case len(fields) == 4 && fields[0] == "target":
			of := history.Owned{Target: fields[1], Owner: fields[2]}
			f := d.Targets[of]
			add(f.Counts(), fields[3], n)
			d.Targets[of] = f
		}
	}
	return d, nil
}

// figures reads the figures of a day. The result maps names to values.
func (s *Store) figures(ctx context.Context, key string) (map[string]int64, error) {
	fields, err := s.db.Slow.HGetAll(ctx, key).Result()
	if err != nil {
		return nil, err
	}
	figures := make(map[string]int64, len(fields))
	for name, text := range fields {
		if figures[name], err = strconv.ParseInt(text, 10, 64); err != nil {
			return nil, fmt.Errorf("history: the figure %q of a day: %w", name, err)
		}
	}
	return figures, nil
}

// Solve implements history.Store. It finds only records that are still in the list of their site.
func (s *Store) Solve(ctx context.Context, id string) (history.Record, bool, error) {
	k := keysOf(s.db)
	mark, err := s.get(ctx, k.mark+id)
	if err != nil || mark == "" {
		return history.Record{}, false, storeError(ctx, err)
	}
	site, text, _ := strings.Cut(mark, "|")
	ended, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return history.Record{}, false, errors.New("history: the mark of a record in Redis has no time")
	}
	if time.UnixMilli(ended).Before(laterStart(time.Time{}, s.o.Keep)) { // an expired record is still in the list of its site
		return history.Record{}, false, nil
	}
	lines, err := s.lines(ctx, k.site+site, time.UnixMilli(ended), time.UnixMilli(ended+1), 0, "|")
	for _, l := range lines {
		if l.id == id {
			r, err := decodeRecord(l)
			return r, err == nil, err
		}
	}
	return history.Record{}, false, storeError(ctx, err)
}

// Task implements history.Store. It finds only records that are still in the list of their site.
func (s *Store) Task(ctx context.Context, task string) (history.Record, bool, error) {
	id, err := s.get(ctx, keysOf(s.db).alias+hashed(task))
	if err != nil || id == "" {
		return history.Record{}, false, storeError(ctx, err)
	}
	return s.Solve(ctx, id)
}

// get reads the text of a key. It returns "" if the key does not exist.
func (s *Store) get(ctx context.Context, key string) (string, error) {
	text, err := s.db.Slow.Get(ctx, key).Result()
	if errors.Is(err, redis.Nil) {
		return "", nil
	}
	return text, err
}

// storeError converts an error to one of the errors that history.Store defines.
func storeError(ctx context.Context, err error) error {
	switch {
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, redisdb.ErrDown):
		return fmt.Errorf("%w: %s", history.ErrDown, redisdb.Reason(err))
	}
	return err
}
