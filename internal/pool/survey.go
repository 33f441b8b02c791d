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

// noted lists the counters that periods:ID keeps, in the order of the method Counters.noted.
var noted = []string{"hits", "waited", "missed", "left", "bought", "solved", "failed", "lost", "expired", "spent"}

func (c *Counters) noted() []*int64 {
	return []*int64{&c.Hits, &c.Waited, &c.Missed, &c.Left, &c.Bought, &c.Solved, &c.Failed, &c.Lost, &c.Expired, &c.Spent}
}

// Stock has what Stocks reads about one identity.
type Stock struct {
	Counts
	Minutes []Period // of the last hour, oldest first, as far as something was counted
	Days    []Period // the last 7 UTC days, likewise

	SolvesHour, SolvesDay int // orders that count in the target's budget, in the last hour and day
}

// Period has the counters of a minute, hour or day. A minute has hits, waited, missed, left, bought and solved; a
// longer period also has failed, lost, expired and spent.
type Period struct {
	At time.Time // the start
	Counters
}

// Stocks reads the counts of many identities in one exchange with Redis.
func (p *Pool) Stocks(ctx context.Context, queries []Query) ([]Stock, error) {
	now, err := p.now(ctx)
	if err != nil {
		return nil, err
	}
	var reads []*redis.Cmd
	minutes := make([][2]*redis.MapStringStringCmd, len(queries))
	days, spent := make([]*redis.SliceCmd, len(queries)), make([][2]*redis.IntCmd, len(queries))
	err = p.pipelined(ctx, func(pipe redis.Pipeliner) {
		reads = p.reads(ctx, pipe, queries)
		for i, q := range queries {
			days[i] = pipe.HMGet(ctx, p.key("periods", counterID(q.ID)), "days")
			for j := range minutes[i] {
				minutes[i][j] = pipe.HGetAll(ctx, p.key("minutes", counterID(q.ID), now.Unix()/3600-1+int64(j)))
			}
			spent[i] = p.countSolves(ctx, pipe, string(q.ID), now)
		}
	})
	if err != nil {
		return nil, err
	}
	list := make([]Stock, len(queries))
	for i := range queries {
		s := Stock{Counts: countsOf(reads[i]), SolvesHour: int(spent[i][0].Val()), SolvesDay: int(spent[i][1].Val())}
		s.Minutes = readMinutes(minutes[i][0].Val(), minutes[i][1].Val(), now)
		s.Days = between(days[i].Val(), s.Counters, 24*time.Hour, now.AddDate(0, 0, -7))
		list[i] = s
	}
	return list, nil
}

// reads adds to a pipeline a run of the script decide for each identity, which only reads. After the pipeline has run,
// countsOf reads the counts from the results. The first run sends the whole script, because Redis may have lost it.
func (p *Pool) reads(ctx context.Context, pipe redis.Pipeliner, queries []Query) (reads []*redis.Cmd) {
	run := p.compiled[decide].Eval
	for _, q := range queries {
		keys, args := p.decideArguments(true, q)
		reads = append(reads, run(ctx, pipe, keys, args...))
		run = p.compiled[decide].EvalSha
	}
	return reads
}

func countsOf(read *redis.Cmd) Counts {
	v, _ := read.Slice() // pipelined has returned the error
	return readCounts(v)
}

// countSolves adds to a pipeline the commands that count a scope's orders of the last hour and day.
func (p *Pool) countSolves(ctx context.Context, pipe redis.Pipeliner, scope string,
	now time.Time) (orders [2]*redis.IntCmd) {
	for i, span := range []time.Duration{time.Hour, 24 * time.Hour} {
		from := "(" + strconv.FormatInt(now.Add(-span).UnixMilli(), 10)
		orders[i] = pipe.ZCount(ctx, p.key("solves", scope), from, "+inf")
	}
	return orders
}

// Spending has the purchases of a scope: orders in the last hour and day, and money on this UTC day and in this UTC
// month, in millionths of the currency.
type Spending struct {
	Hour, Day            int
	MoneyDay, MoneyMonth int64
}

// Totals has sums over all identities.
type Totals struct {
	Guests  GuestStock
	Spent   map[string]Spending // by scope
	Savings []SavingsDay        // of the last seven UTC days, today first
	// rows that wait in the outbox, and rows that were dropped because too many waited
	Rows, DroppedRows int64
}

// GuestStock sums the stock of all guests.
type GuestStock struct {
	Guests         int // that have tokens, orders or tickets, or had some until lately
	Fresh          int // tokens, with those that are in their margin
	Orders         int // in flight
	BoughtInFlight int // orders in flight that count as bought
	Waiting        int // tickets
	Counters       Counters
}

// Totals reads the sums over all identities, and the purchases of the given scopes.
func (p *Pool) Totals(ctx context.Context, scopes ...string) (t Totals, err error) {
	now, err := p.now(ctx)
	if err != nil {
		return t, err
	}
	var due *redis.StringSliceCmd
	if err := p.pipelined(ctx, func(pipe redis.Pipeliner) { due = pipe.ZRange(ctx, p.key("due"), 0, -1) }); err != nil {
		return t, err
	}
	var guests []Query
	for _, id := range due.Val() {
		if _, guest := IdentityOf(captcha.ID(id)); guest {
			guests = append(guests, Query{ID: captcha.ID(id)})
		}
	}
	var reads []*redis.Cmd
	var stats, dropped *redis.MapStringStringCmd
	months, orders := make([]*redis.MapStringStringCmd, len(scopes)), make([][2]*redis.IntCmd, len(scopes))
	var ends, handouts *redis.IntCmd
	var savings [savingsDays]*redis.MapStringStringCmd
	err = p.pipelined(ctx, func(pipe redis.Pipeliner) {
		reads, stats = p.reads(ctx, pipe, guests), pipe.HGetAll(ctx, p.key("stats", Guests))
		for i, scope := range scopes {
			months[i] = pipe.HGetAll(ctx, p.key("money", scope, now.UTC().Format("2006-01")))
			orders[i] = p.countSolves(ctx, pipe, scope, now)
		}
		ends, handouts = pipe.XLen(ctx, p.key("outbox", Ends)), pipe.XLen(ctx, p.key("outbox", Handouts))
		dropped = pipe.HGetAll(ctx, p.key("outbox", "dropped"))
		for i := range savings {
			savings[i] = pipe.HGetAll(ctx, p.key("savings", savingsDate(now, i)))
		}
	})
	if err != nil {
		return t, err
	}
	t.Spent = map[string]Spending{}
	for i, scope := range scopes {
		month := fields(months[i].Val())
		s := Spending{Hour: int(orders[i][0].Val()), Day: int(orders[i][1].Val()),
			MoneyDay: month.int(now.UTC().Format("02"))}
		for day := range month {
			s.MoneyMonth += month.int(day)
		}
		t.Spent[scope] = s
	}
	lost := fields(dropped.Val())
	t.Rows, t.DroppedRows = ends.Val()+handouts.Val(), lost.int(Ends)+lost.int(Handouts)
	for i := range savings {
		day := SavingsDay{savingsDate(now, i), map[SavingsSource]int64{}}
		for source := range savings[i].Val() {
			day.BySource[SavingsSource(source)] = fields(savings[i].Val()).int(source)
		}
		t.Savings = append(t.Savings, day)
	}
	g := &t.Guests
	g.Guests, g.Counters = len(guests), fields(stats.Val()).counters()
	for _, read := range reads {
		c := countsOf(read)
		g.Fresh, g.Orders, g.Waiting = g.Fresh+c.Fresh, g.Orders+c.Orders, g.Waiting+c.Waiting
		g.BoughtInFlight += c.BoughtInFlight
	}
	return t, nil
}

// Hours returns the counters of an identity in each UTC hour of the last 24, oldest first. Hours without an event are
// left out.
func (p *Pool) Hours(ctx context.Context, id captcha.ID) ([]Period, error) {
	var clock *redis.TimeCmd
	var hours *redis.SliceCmd
	var stats *redis.MapStringStringCmd
	err := p.pipelined(ctx, func(pipe redis.Pipeliner) {
		clock, hours = pipe.Time(ctx), pipe.HMGet(ctx, p.key("periods", counterID(id)), "hours")
		stats = pipe.HGetAll(ctx, p.stats(id))
	})
	if err != nil {
		return nil, err
	}
	return between(hours.Val(), fields(stats.Val()).counters(), time.Hour, clock.Val().Add(-24*time.Hour)), nil
}

// between returns the hours or days that begin after a time, oldest first. It computes them from the differences
// between the counters in a field of periods:ID (newest first) and the present counters.
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

// readMinutes returns the minutes of the last 60, from the counters of the previous UTC hour and of the present one.
func readMinutes(before, present fields, now time.Time) (list []Period) {
	for at := now.UTC().Truncate(time.Minute).Add(-59 * time.Minute); !at.After(now); at = at.Add(time.Minute) {
		counted, minute := present, strconv.Itoa(at.Minute())
		if at.Hour() != now.UTC().Hour() {
			counted = before
		}
		c := Counters{
			Hits: counted.int("hits" + minute), Waited: counted.int("waited" + minute), Missed: counted.int("missed" + minute),
			Left: counted.int("left" + minute), Bought: counted.int("bought" + minute), Solved: counted.int("solved" + minute),
		}
		if c != (Counters{}) {
			list = append(list, Period{at, c})
		}
	}
	return list
}
