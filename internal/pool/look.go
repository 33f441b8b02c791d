package pool

import (
	"context"
	"fmt"
	"iter"
	"sort"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/captcha"
	"poold/internal/redisdb"
)

// Query names one identity to look at, and how its life is to be judged.
type Query struct {
	ID     captcha.ID
	Margin time.Duration
	Lead   time.Duration
	// Keep: what is known of the identity is kept for 30 days from now on. It need not
	// be said at every look.
	Keep bool
	Hour bool // its last hour is told too
}

const (
	// kept is how long what is known of an identity outlives the last look that keeps it.
	// It is longer than any stop of all replicas.
	kept = 30 * 24 * time.Hour
	// keptLeft is the same where nobody wants the identity any more. A token and an
	// order live for a day at most: what a replica still buys that has not heard of
	// it is counted to its end.
	keptLeft = 50 * time.Hour
)

// hour is 1 where the last hour is told.
func (q Query) hour() int {
	if q.Hour {
		return 1
	}
	return 0
}

// kept is how long what is known is kept; 0 = as long as it was.
func (q Query) kept() time.Duration {
	if q.Keep {
		return kept
	}
	return 0
}

// Look tells what one identity holds, and keeps what is known of it.
func (s *Tokens) Look(ctx context.Context, id captcha.ID, margin, lead time.Duration) (Stock, error) {
	reply, err := s.db.Eval(ctx, s.scripts.look, s.lookKeys(id), margin.Milliseconds(), lead.Milliseconds(), kept.Milliseconds(), 0)
	if err != nil {
		return Stock{}, err
	}
	return detailedStock(reply)
}

// Leave looks a last time at an identity that nobody wants any more, when its tokens
// and orders are over: how they ended is counted, and what is known of it is
// forgotten two days later, unless it is looked at again.
func (s *Tokens) Leave(ctx context.Context, id captcha.ID, margin time.Duration) error {
	_, err := s.db.Eval(ctx, s.scripts.look, s.lookKeys(id), margin.Milliseconds(), 0, keptLeft.Milliseconds(), 0)
	return err
}

// Survey looks at many identities in one exchange. It fails where nothing can be
// told of any of them; where that is so of some, their Stock says why in Err.
func (s *Tokens) Survey(ctx context.Context, queries []Query) ([]Stock, error) {
	stocks := make([]Stock, len(queries))
	for i, q := range queries {
		// A node that hangs would hold up the others' answers.
		stocks[i].Err = s.db.Away(ctx, string(q.ID))
	}
	answers := make([]*redis.Cmd, len(queries))
	s.db.Pipelined(ctx, s.scripts.look, func(call func([]string, ...any) *redis.Cmd) {
		for i, q := range queries {
			if stocks[i].Err == nil {
				answers[i] = call(s.lookKeys(q.ID), q.Margin.Milliseconds(), q.Lead.Milliseconds(), q.kept().Milliseconds(), q.hour())
			}
		}
	})
	told := 0
	for i, answer := range answers {
		if stocks[i].Err != nil {
			continue
		}
		stock, err := Stock{}, answer.Err()
		if err == nil {
			stock, err = detailedStock(answer.Val())
		}
		stocks[i], stocks[i].Err = stock, err
		if err == nil {
			told++
		}
	}
	if told == 0 && len(queries) > 0 {
		return nil, stocks[0].Err
	}
	return stocks, nil
}

func (s *Tokens) lookKeys(id captcha.ID) []string {
	k := s.keys(id)
	return []string{k.tokens, k.orders, k.journal, k.tickets, k.seen, k.stats, k.paused, k.leads, k.leases, k.spend, k.verdicts, k.warm, k.junk, k.mind, k.ended, k.hour, k.attempts}
}

// detailedStock reads the answer of look.lua.
func detailedStock(reply any) (Stock, error) {
	const numbers, all = 12, 22
	n, err := redisdb.Integers(reply, numbers)
	if err != nil {
		return Stock{}, err
	}
	list := reply.([]any)
	if len(list) != all {
		return Stock{}, fmt.Errorf("pool: look answered %d values", len(list))
	}
	stock := Stock{
		Paused: n[0] == 1,
		Fresh:  int(n[1]), Outliving: int(n[2]), Orders: int(n[3]), Waiting: int(n[4]),
		NextExpiry: time.Duration(n[5]) * time.Millisecond,
		NextLook:   time.Duration(n[6]) * time.Millisecond,
		NextEnd:    time.Duration(n[7]) * time.Millisecond,
		Unknown:    int(n[8]), Bought: int(n[9]), HourUsed: int(n[10]), DayUsed: int(n[11]),
		OrderAges: durations(list[12]), Leads: durations(list[13]),
	}
	sort.Slice(stock.OrderAges, func(i, j int) bool { return stock.OrderAges[i] > stock.OrderAges[j] })
	verdicts, _ := list[14].([]any)
	for _, v := range verdicts {
		stock.Verdicts = append(stock.Verdicts, v == "1")
	}
	for name, value := range pairs(list[15]) {
		if day, is := dayOf(name); is {
			stock.note(day, value)
			continue
		}
		stock.Figures.add(name, value)
	}
	stock.hour, _ = list[17].(string)
	pause, _ := list[18].(string)
	stock.Pause = readPause(pause)
	resumes, _ := list[19].(int64)
	stock.Resumes = time.Duration(resumes) * time.Millisecond
	now, _ := list[21].(int64)
	stock.Attempts = readAttempts(list[20], now)
	stock.Windows, err = windows(list[16])
	return stock, err
}

// pairs reads a hash as a script answers it.
func pairs(list any) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		items, _ := list.([]any)
		for i := 0; i+1 < len(items); i += 2 {
			name, _ := items[i].(string)
			value, _ := items[i+1].(string)
			if !yield(name, value) {
				return
			}
		}
	}
}

// add adds to one counter, by its name in the stats hash; unknown names belong to
// another version and are ignored.
func (f *Figures) add(name, value string) {
	count, _ := strconv.ParseInt(value, 10, 64)
	if counter := counters[name]; counter != nil {
		*counter(f) += count
	}
}

// counters are the figures by their names in the stats hash.
var counters = map[string]func(*Figures) *int64{
	"requests":   func(f *Figures) *int64 { return &f.Requests },
	"hits":       func(f *Figures) *int64 { return &f.Hits },
	"waited":     func(f *Figures) *int64 { return &f.Waited },
	"misses":     func(f *Figures) *int64 { return &f.Misses },
	"refused":    func(f *Figures) *int64 { return &f.Refused },
	"replays":    func(f *Figures) *int64 { return &f.Replays },
	"solved":     func(f *Figures) *int64 { return &f.Solved },
	"expired":    func(f *Figures) *int64 { return &f.Expired },
	"failed":     func(f *Figures) *int64 { return &f.Failed },
	"lost":       func(f *Figures) *int64 { return &f.Lost },
	"returned":   func(f *Figures) *int64 { return &f.Returned },
	"bought":     func(f *Figures) *int64 { return &f.Bought },
	"discarded":  func(f *Figures) *int64 { return &f.Discarded },
	"accepted":   func(f *Figures) *int64 { return &f.Accepted },
	"rejected":   func(f *Figures) *int64 { return &f.Rejected },
	"junk":       func(f *Figures) *int64 { return &f.Junk },
	"spent":      func(f *Figures) *int64 { return &f.Spent },
	"unrecorded": func(f *Figures) *int64 { return &f.Unrecorded },
}

// durations reads a list of milliseconds, which Lua gives as numbers and Redis
// lists as text.
func durations(list any) []time.Duration {
	items, _ := list.([]any)
	out := make([]time.Duration, 0, len(items))
	for _, item := range items {
		var ms int64
		switch v := item.(type) {
		case int64:
			ms = v
		case string:
			ms, _ = strconv.ParseInt(v, 10, 64)
		}
		out = append(out, time.Duration(ms)*time.Millisecond)
	}
	return out
}
