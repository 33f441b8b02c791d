package pool

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/captcha"
)

// noted are the counters in periods:ID, in the order of Counters.noted.
var noted = []string{"hits", "waited", "missed", "left", "bought", "solved", "failed", "lost", "expired", "spent"}

func (c *Counters) noted() []*int64 {
	return []*int64{&c.Hits, &c.Waited, &c.Missed, &c.Left, &c.Bought, &c.Solved, &c.Failed, &c.Lost, &c.Expired, &c.Spent}
}

// Stock is what LookAll reads of an identity.
type Stock struct {
	Counts
	Minutes []Period // of the last hour, oldest first, as far as something was counted
	Days    []Period // the last 7 UTC days, likewise

	SpentHour, SpentDay int // orders of its own budget in the last hour and day
}

// Period is a minute, hour or day, and what was counted in it: of a minute hits, waited, missed, left, bought and
// solved; of a longer one also failed, lost, expired and spent.
type Period struct {
	At time.Time // the start
	Counters
}

// LookAll looks at many identities in one exchange.
func (p *Pool) LookAll(ctx context.Context, queries []Query) ([]Stock, error) {
	counts := make([]*redis.Cmd, len(queries))
	minutes := make([][2]*redis.MapStringStringCmd, len(queries))
	days, spent := make([]*redis.SliceCmd, len(queries)), make([][2]*redis.IntCmd, len(queries))
	now, err := p.pipelined(ctx, func(pipe redis.Pipeliner, now time.Time) {
		hour := now.Unix() / 3600
		for i, q := range queries {
			counts[i] = p.look(ctx, pipe, q)
			days[i] = pipe.HMGet(ctx, p.key("periods", ledger(q.ID)), "days")
			for j := range minutes[i] {
				minutes[i][j] = pipe.HGetAll(ctx, p.key("minutes", ledger(q.ID), hour-1+int64(j)))
			}
			spent[i] = countSpent(ctx, pipe, p.key("spend", q.ID), now)
		}
	})
	if err != nil {
		return nil, err
	}
	list := make([]Stock, len(queries))
	for i := range queries {
		s := Stock{Counts: countsOf(counts[i]), SpentHour: int(spent[i][0].Val()), SpentDay: int(spent[i][1].Val())}
		s.Minutes = readMinutes(minutes[i][0].Val(), minutes[i][1].Val(), now)
		s.Days = between(days[i].Val(), s.Counters, 24*time.Hour, now.AddDate(0, 0, -7))
		list[i] = s
	}
	return list, nil
}

// look adds a look at an identity to a pipeline. The end of the pipeline has its counts.
func (p *Pool) look(ctx context.Context, pipe redis.Pipeliner, q Query) *redis.Cmd {
	keys, args := p.decideArguments(true, q)
	return pipe.EvalSha(ctx, p.compiled[decide].Hash(), keys, args...)
}

func countsOf(look *redis.Cmd) Counts {
	v, _ := look.Slice() // pipelined has returned the error
	return readCounts(v)
}

// pipelined runs a pipeline at a time on Redis' clock, and again if Redis has lost the script of looks.
func (p *Pool) pipelined(ctx context.Context, add func(pipe redis.Pipeliner, now time.Time)) (now time.Time, err error) {
	err = p.plainly(ctx, func(ctx context.Context) (err error) {
		if now, err = p.db.Time(ctx).Result(); err != nil {
			return err
		}
		for range 2 {
			pipe := p.db.Pipeline()
			add(pipe, now)
			if _, err = pipe.Exec(ctx); !redis.HasErrorPrefix(err, "NOSCRIPT") {
				return err
			}
			if err := p.compiled[decide].Load(ctx, p.db).Err(); err != nil {
				return err
			}
		}
		return err
	})
	return now, err
}

// Hours returns the UTC hours of the last 24 hours in which something of an identity was counted, oldest first.
func (p *Pool) Hours(ctx context.Context, id captcha.ID) (list []Period, err error) {
	err = p.plainly(ctx, func(ctx context.Context) error {
		pipe := p.db.TxPipeline()
		clock, hours, stats := pipe.Time(ctx), pipe.HMGet(ctx, p.key("periods", ledger(id)), "hours"), pipe.HGetAll(ctx, p.stats(id))
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
		list = between(hours.Val(), fields(stats.Val()).counters(), time.Hour, clock.Val().Add(-24*time.Hour))
		return nil
	})
	return list, err
}

// between returns the periods that begin after a time, oldest first, from the noted counters in a field of periods:ID,
// newest first, and the present ones.
func between(notes []any, next Counters, unit time.Duration, after time.Time) (list []Period) {
	for _, note := range strings.Split(text(notes[0]), ",") {
		words := strings.Split(note, "|")
		hour, _ := strconv.ParseInt(words[0], 10, 64)
		at := time.Unix(3600*hour, 0).UTC().Truncate(unit)
		if !at.After(after) {
			break
		}
		period, before := Period{At: at}, Counters{}
		for i, n := range before.noted() {
			*n, _ = strconv.ParseInt(words[1+i], 10, 64)
			*period.noted()[i] = *next.noted()[i] - *n
		}
		if next = before; period.Counters != (Counters{}) {
			list = append(list, period)
		}
	}
	slices.Reverse(list)
	return list
}

// readMinutes returns the minutes of the last hour from the counters of the hour before and of this one.
func readMinutes(before, present fields, now time.Time) []Period {
	hour, minutes := now.Truncate(time.Hour).UTC(), map[time.Time]fields{}
	for i, counted := range []fields{before, present} {
		for field := range counted {
			name := strings.TrimRight(field, "0123456789")
			minute, _ := strconv.Atoi(field[len(name):])
			at := hour.Add(time.Duration(60*(i-1)+minute) * time.Minute)
			if !at.After(now.Add(-time.Hour)) {
				continue
			}
			if minutes[at] == nil {
				minutes[at] = fields{}
			}
			minutes[at][name] = counted[field]
		}
	}
	var list []Period
	for at, counted := range minutes {
		if c := counted.counters(); c != (Counters{}) {
			list = append(list, Period{at, c})
		}
	}
	return slices.SortedFunc(slices.Values(list), func(a, b Period) int { return a.At.Compare(b.At) })
}
