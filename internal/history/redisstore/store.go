package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"poold/internal/captcha"
	"poold/internal/history"
	"poold/internal/pool"
	"poold/internal/redisdb"
)

// Archive is where records and entries are kept: pool.Archive.
type Archive interface {
	Add(ctx context.Context, records []pool.Archived, keep time.Duration) error
	OfSite(ctx context.Context, site string, from, to time.Time) ([]pool.Archived, error)
	OfStatus(ctx context.Context, status string, from, to time.Time) ([]pool.Archived, error)
	Day(ctx context.Context, day time.Time) (map[string]int64, error)
	Find(ctx context.Context, id string) (pool.Archived, bool, error)
	FindAlias(ctx context.Context, alias string) (pool.Archived, bool, error)
	AddLines(ctx context.Context, lines []pool.Line, keep time.Duration) error
	Lines(ctx context.Context, name string, from, to time.Time, most int) ([]pool.Line, error)
	Usage(ctx context.Context, day time.Time) (map[string]int64, error)
}

// Options are how long something is kept.
type Options struct {
	Keep      time.Duration // records, and the figures of days; 0 = 7 days
	KeepAudit time.Duration // entries of the audit, and their figures; 0 = 7 days
}

var (
	_ history.Store = (*Store)(nil)
	_ history.Audit = (*Store)(nil)
)

// Store is a history.Store and a history.Audit.
type Store struct {
	archive Archive
	o       Options
}

// New keeps records and entries in an archive.
func New(archive Archive, o Options) *Store {
	o.Keep, o.KeepAudit = cmp.Or(o.Keep, week), cmp.Or(o.KeepAudit, week)
	return &Store{archive, o}
}

const week = 7 * 24 * time.Hour

// Write is history.Store's.
func (s *Store) Write(ctx context.Context, batch []history.Record) error {
	records := make([]pool.Archived, len(batch))
	for i, r := range batch {
		records[i] = pool.Archived{
			ID: r.ID, Alias: r.Task, Site: r.Sitekey, Status: string(r.Status()), Ended: r.Ended, Text: encode(r), Figures: figures(r),
		}
		if history.IsOrder(r.Task) {
			records[i].Alias = ""
		}
	}
	return failed(ctx, s.archive.Add(ctx, records, s.o.Keep))
}

// Site is history.Store's. The newest 50 records are kept.
func (s *Store) Site(ctx context.Context, sitekey string, q history.Query) (history.Page, error) {
	found, err := s.archive.OfSite(ctx, sitekey, since(q.From, s.o.Keep), q.To)
	return page(found, q, failed(ctx, err))
}

// Tasks is history.Store's. The newest 1,000 records are kept.
func (s *Store) Tasks(ctx context.Context, status history.Status, q history.Query) (history.Page, error) {
	if status != history.StatusSolved && status != history.StatusError {
		return history.Page{}, fmt.Errorf("history: no record is %q", status)
	}
	found, err := s.archive.OfStatus(ctx, string(status), since(q.From, s.o.Keep), q.To)
	return page(found, q, failed(ctx, err))
}

// since is from when on something is read that is kept for so long. This process' clock
// judges that.
func since(from time.Time, keep time.Duration) time.Time {
	if oldest := time.Now().Add(-keep); from.Before(oldest) {
		return oldest
	}
	return from
}

// page is what a query finds among the records of a list.
func page(found []pool.Archived, q history.Query, err error) (p history.Page, _ error) {
	if err != nil {
		return history.Page{}, err
	}
	for _, a := range found {
		if !q.Before.Ended.IsZero() && !before(a.Ended, a.ID, q.Before) {
			continue
		}
		r, err := decode(a)
		if err != nil {
			return history.Page{}, err
		}
		if q.Targets != nil && !slices.Contains(q.Targets, r.Target) {
			continue
		}
		if len(p.Records) == q.Limit {
			p.More = true
			break
		}
		p.Records = append(p.Records, r)
	}
	return p, nil
}

// before reports whether what has a time and an ID comes behind a position, newest first.
func before(at time.Time, id string, p history.Position) bool {
	return at.Before(p.Ended) || at.Equal(p.Ended) && id < p.ID
}

// Day is history.Store's.
func (s *Store) Day(ctx context.Context, day time.Time) (history.Day, error) {
	found, err := s.archive.Day(ctx, day)
	if err != nil {
		return history.Day{}, failed(ctx, err)
	}
	d := history.Day{Types: map[captcha.Type]history.Figures{}, Targets: map[history.Owned]history.Figures{}}
	for name, n := range found {
		fields, err := unescape(strings.Split(name, "|"))
		switch {
		case err != nil:
			return history.Day{}, err
		case len(fields) == 3 && fields[0] == "type":
			of := captcha.Type(fields[1])
			d.Types[of] = plus(d.Types[of], fields[2], n)
		case len(fields) == 4 && fields[0] == "target":
			of := history.Owned{Target: fields[1], Owner: fields[2]}
			d.Targets[of] = plus(d.Targets[of], fields[3], n)
		}
	}
	return d, nil
}

// Solve is history.Store's.
func (s *Store) Solve(ctx context.Context, id string) (history.Record, bool, error) {
	return one(ctx, id, s.archive.Find)
}

// Task is history.Store's.
func (s *Store) Task(ctx context.Context, task string) (history.Record, bool, error) {
	return one(ctx, task, s.archive.FindAlias)
}

// one reads the record that find finds by a name.
func one(ctx context.Context, name string, find func(context.Context, string) (pool.Archived, bool, error)) (history.Record, bool, error) {
	a, there, err := find(ctx, name)
	if err != nil || !there {
		return history.Record{}, false, failed(ctx, err)
	}
	r, err := decode(a)
	return r, err == nil, err
}

// failed says which errors may go away.
func failed(ctx context.Context, err error) error {
	switch {
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, redisdb.ErrDown):
		return fmt.Errorf("%w: %s", history.ErrDown, redisdb.Reason(err))
	}
	return err
}

// The names of figures in Redis.
const (
	solved    = "solved"
	discarded = "discarded"
	failedOf  = "failed"
	refused   = "refused"
	lost      = "lost"
	elapsed   = "elapsed_ms"
	spent     = "spent"
	unpriced  = "unpriced"
)

// figures are what a record adds to those of its type and of its target.
func figures(r history.Record) map[string]int64 {
	f := r.Figures()
	of := map[string]int64{}
	for name, n := range map[string]int64{
		solved: f.Solved, discarded: f.Discarded, failedOf: f.Failed, refused: f.Refused, lost: f.Lost,
		elapsed: f.Elapsed.Milliseconds(), spent: f.Spent, unpriced: f.Unpriced,
	} {
		if n != 0 {
			of[escape("type", string(r.Type), name)] = n
			of[escape("target", r.Target, r.Owner, name)] = n
		}
	}
	return of
}

// plus adds to one figure, by its name; those of another version are ignored.
func plus(f history.Figures, name string, n int64) history.Figures {
	switch name {
	case solved:
		f.Solved += n
	case discarded:
		f.Discarded += n
	case failedOf:
		f.Failed += n
	case refused:
		f.Refused += n
	case lost:
		f.Lost += n
	case elapsed:
		f.Elapsed += time.Duration(n) * time.Millisecond
	case spent:
		f.Spent += n
	case unpriced:
		f.Unpriced += n
	}
	return f
}

// encode writes a record but for its ID and end, which stand beside it.
func encode(r history.Record) string {
	callback := "0"
	if r.Callback {
		callback = "1"
	}
	return escape(
		string(r.Identity), r.Target, r.Owner, string(r.Type), r.Sitekey, r.Pageurl, r.Provider, r.Task,
		string(r.How), r.Code, moment(r.Placed), moment(r.Submitted), moment(r.Solved),
		strconv.Itoa(r.Polls), callback, strconv.FormatInt(r.Price, 10),
	)
}

// decode is the inverse of encode.
func decode(a pool.Archived) (history.Record, error) {
	f, err := unescape(strings.Split(a.Text, "|"))
	if err != nil || len(f) != 16 {
		return history.Record{}, errors.Join(errors.New("history: a record in Redis cannot be read"), err)
	}
	var n [5]int64
	for i, field := range []int{10, 11, 12, 13, 15} {
		if n[i], err = strconv.ParseInt(f[field], 10, 64); err != nil {
			return history.Record{}, fmt.Errorf("history: a record in Redis cannot be read: %w", err)
		}
	}
	return history.Record{
		ID: a.ID, Ended: a.Ended, Identity: captcha.ID(f[0]), Target: f[1], Owner: f[2], Type: captcha.Type(f[3]),
		Sitekey: f[4], Pageurl: f[5], Provider: f[6], Task: f[7], How: history.How(f[8]), Code: f[9],
		Placed: at(n[0]), Submitted: at(n[1]), Solved: at(n[2]), Polls: int(n[3]), Callback: f[14] == "1", Price: n[4],
	}, nil
}

// moment is a time in Unix ms; 0 = none.
func moment(t time.Time) string {
	if t.IsZero() {
		return "0"
	}
	return strconv.FormatInt(t.UnixMilli(), 10)
}

// at is the inverse of moment.
func at(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

func escape(fields ...string) string {
	for i := range fields {
		fields[i] = url.QueryEscape(fields[i])
	}
	return strings.Join(fields, "|")
}

func unescape(fields []string) ([]string, error) {
	for i := range fields {
		var err error
		if fields[i], err = url.QueryUnescape(fields[i]); err != nil {
			return nil, fmt.Errorf("history: a text in Redis is not escaped: %w", err)
		}
	}
	return fields, nil
}
