package redisstore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/history"
	"poold/internal/redisdb"
)

// appendRows appends rows to lists, and adds their figures to days, unless a list already contains one of the rows.
// Without free memory, it fails before any change.
//
//	KEYS   lists and days
//	ARGV   for each key: its life in ms; the most rows of a list, 0 = a day; the number of its items; and the items:
//	       of a list Unix ms, row, … and of a day number, figure, …
//	Reply  the known rows; nothing has changed unless there are none
var appendRows = redisdb.NewScript(`
local t = redis.call('TIME')
local known, now = {}, t[1] * 1000 + math.floor(t[2] / 1000)

local function each_key(act)
  local at = 0
  for _, key in ipairs(KEYS) do
    local keep, most, first = ARGV[at + 1], tonumber(ARGV[at + 2]), at + 4
    at = at + 3 + 2 * ARGV[at + 3]
    act(key, keep, most, first, at)
  end
end

each_key(function(key, _, most, first, last)
  if most == 0 then return end
  local rows = {}
  for i = first + 1, last, 2 do rows[#rows + 1] = ARGV[i] end
  for i, score in ipairs(redis.call('ZMSCORE', key, unpack(rows))) do
    if score then known[#known + 1] = rows[i] end
  end
end)
if #known > 0 then return known end
each_key(function(key, keep, most, first, last)
  if most > 0 then
    redis.call('ZADD', key, unpack(ARGV, first, last))
    redis.call('ZREMRANGEBYRANK', key, 0, -most - 1)
    redis.call('ZREMRANGEBYSCORE', key, '-inf', '(' .. string.format('%.0f', now - keep))
  else
    for i = first, last, 2 do redis.call('HINCRBY', key, ARGV[i + 1], ARGV[i]) end
  end
  redis.call('PEXPIRE', key, keep)
end)
return known`)

// The limits of lists. Older rows are removed.
const (
	mostOfSite   = 50
	mostOfStatus = 1000
	mostOfKey    = 10_000
)

// Lists implements history.Sink in lists of the rows, and in figures of days.
type Lists struct {
	db              *redisdb.DB
	keep, keepAudit time.Duration // how long orders, and hand-outs, are kept with their figures
}

var _ history.Sink = (*Lists)(nil)

// New returns Lists that use db. The caller opens, runs and closes db.
func New(db *redisdb.DB, keep, keepAudit time.Duration) *Lists { return &Lists{db, keep, keepAudit} }

func (s *Lists) key(kind, of string) string { return s.db.Prefix + ":" + kind + ":{history}:" + of }

// day returns the key of a day and how long rows of a kind are kept.
func (s *Lists) day(kind history.RowKind, date string) (string, time.Duration) {
	if kind == history.KindHandout {
		return s.key("usage", date), s.keepAudit
	}
	return s.key("day", date), s.keep
}

// Append implements history.Sink.
func (s *Lists) Append(ctx context.Context, rows []history.Row) error {
	fresh := map[string]*history.Row{}
	for i := range rows {
		_, keep := s.day(rows[i].Kind, "")
		if rows[i].Kind != history.KindActive && time.Since(rows[i].At) < keep {
			fresh[string(rows[i].Text)] = &rows[i]
		}
	}
	for len(fresh) > 0 {
		reply, err := s.append(ctx, fresh)
		if err != nil || len(reply) == 0 {
			return wrap(ctx, err)
		}
		for _, text := range reply { // the script has done nothing: once more, without the known rows
			delete(fresh, text)
		}
	}
	return ctx.Err()
}

// append appends rows if the lists contain none of them. Otherwise it changes nothing and returns those of the rows
// that the lists contain.
func (s *Lists) append(ctx context.Context, rows map[string]*history.Row) (known []string, err error) {
	heads, items, sums := map[string][]any{}, map[string][]any{}, map[string]map[string]int64{}
	begin := func(key string, keep time.Duration, most int) {
		if heads[key] == nil {
			heads[key], sums[key] = []any{keep.Milliseconds(), most}, map[string]int64{}
		}
	}
	for text, r := range rows {
		lists := map[string]int{s.key("handouts", r.Key): mostOfKey}
		if r.Kind == history.KindOrder {
			lists = map[string]int{s.key("orders", string(r.Status)): mostOfStatus,
				s.key("orders", "site:"+r.Sitekey): mostOfSite}
		}
		_, keep := s.day(r.Kind, "")
		for list, most := range lists {
			begin(list, keep, most)
			items[list] = append(items[list], r.At.UnixMilli(), text)
		}
		for _, sum := range r.Sums {
			day, _ := s.day(r.Kind, sum.Day)
			begin(day, keep, 0)
			for name, n := range sum.Figures {
				sums[day][strings.Join([]string{string(sum.Scope), sum.Name, sum.Owner, name}, "\x00")] += n
			}
		}
	}
	var keys []string
	var args []any
	for key, head := range heads {
		keys = append(keys, key)
		for name, n := range sums[key] { // none of a list
			items[key] = append(items[key], n, name)
		}
		args = append(append(append(args, head...), len(items[key])/2), items[key]...)
	}
	return appendRows.Run(ctx, s.db.Slow, keys, args...).StringSlice()
}

// Find implements history.Sink.
func (s *Lists) Find(ctx context.Context, q history.Query) (p history.Page, err error) {
	lists, most, keep := []string{s.key("orders", q.Value)}, q.Limit+2, s.keep
	switch q.By {
	case history.BySite:
		lists = []string{s.key("orders", "site:"+q.Value)}
	case history.ByKey:
		lists, keep = []string{s.key("handouts", q.Value)}, s.keepAudit
	case history.ByID, history.ByTask:
		lists, most = []string{s.key("orders", string(history.StatusSolved)), s.key("orders", string(history.StatusError))},
			mostOfStatus
	case history.ByStatus:
	}
	if oldest := time.Now().Add(-keep); q.From.Before(oldest) {
		q.From = oldest
	}
	// One read usually finds enough rows for a page. If the filters leave too few rows, the next read is longer and starts
	// from the beginning, so that a page shows one state of the list.
	for ; ; most *= 4 {
		var found []line
		all := true
		for _, list := range lists {
			lines, err := s.read(ctx, list, &q, most)
			if err != nil {
				return p, err
			}
			all = all && len(lines) < most
			for _, l := range lines {
				if l.matches(&q) {
					found = append(found, l)
				}
			}
		}
		if !all && len(found) <= q.Limit {
			continue
		}
		slices.SortFunc(found, func(a, b line) int { return cmp.Or(b.at.Compare(a.at), cmp.Compare(b.ID, a.ID)) })
		p.More = len(found) > q.Limit
		for _, l := range found[:min(len(found), q.Limit)] {
			p.Rows = append(p.Rows, l.text)
		}
		return p, nil
	}
}

// line is a row of a list.
type line struct {
	at                      time.Time
	text                    []byte
	ID, Target, Owner, Task string
}

func (l *line) matches(q *history.Query) bool {
	before := history.Position{}
	return (q.By != history.ByID || l.ID == q.Value) && (q.By != history.ByTask || l.Task == q.Value) &&
		(q.Targets == nil || slices.Contains(q.Targets, l.Target)) && (q.Owner == "" || l.Owner == q.Owner) &&
		(q.Before == before || cmp.Or(l.at.Compare(q.Before.At), cmp.Compare(l.ID, q.Before.ID)) < 0)
}

// read returns the newest rows of a list within the times of a query; the caller applies the other filters.
func (s *Lists) read(ctx context.Context, list string, q *history.Query, most int) ([]line, error) {
	// Scores are whole milliseconds, so a limit between two scores is rounded up.
	ms := func(at time.Time) string { return strconv.FormatInt(at.Add(time.Millisecond-1).UnixMilli(), 10) }
	to := "+inf"
	switch next := q.Before.At.Add(time.Millisecond); {
	case !q.Before.At.IsZero() && (q.To.IsZero() || next.Before(q.To)):
		to = "(" + ms(next)
	case !q.To.IsZero():
		to = "(" + ms(q.To)
	}
	members, err := s.db.Slow.ZRangeArgsWithScores(ctx, redis.ZRangeArgs{
		Key: list, Start: to, Stop: ms(q.From), ByScore: true, Rev: true, Count: int64(most),
	}).Result()
	lines := make([]line, len(members))
	for i, m := range members {
		text, _ := m.Member.(string)
		lines[i].at, lines[i].text = time.UnixMilli(int64(m.Score)), []byte(text)
		if err := json.Unmarshal(lines[i].text, &lines[i]); err != nil {
			return nil, fmt.Errorf("history: a row in Redis is malformed: %w", err)
		}
	}
	return lines, wrap(ctx, err)
}

// Days implements history.Sink.
func (s *Lists) Days(ctx context.Context, at time.Time) ([]history.Sum, error) {
	day, sums := at.UTC().Format(time.DateOnly), map[[3]string]history.Figures{}
	for _, kind := range []history.RowKind{history.KindOrder, history.KindHandout} {
		key, _ := s.day(kind, day)
		fields, err := s.db.Slow.HGetAll(ctx, key).Result()
		if err != nil {
			return nil, wrap(ctx, err)
		}
		for field, text := range fields {
			f := strings.Split(field, "\x00")
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil || len(f) != 4 {
				return nil, fmt.Errorf("history: the figure %q of %s is malformed", field, key)
			}
			of := [3]string(f[:3])
			if sums[of] == nil {
				sums[of] = history.Figures{}
			}
			sums[of][f[3]] = n
		}
	}
	var list []history.Sum
	for of, figures := range sums {
		list = append(list, history.Sum{Day: day, Scope: history.Scope(of[0]), Name: of[1], Owner: of[2], Figures: figures})
	}
	return list, nil
}

// wrap converts an error to an error that history.Sink allows.
func wrap(ctx context.Context, err error) error {
	switch {
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, redisdb.ErrDown):
		return fmt.Errorf("%w: %s", history.ErrDown, redisdb.Reason(err))
	}
	return err
}
