package pool

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/captcha"
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

// kept is how long what is known is kept; 0 = as long as it was.
func (q Query) kept() time.Duration {
	if q.Keep {
		return kept
	}
	return 0
}

// Look tells what one identity holds, and keeps what is known of it.
func (s *Tokens) Look(ctx context.Context, id captcha.ID, margin, lead time.Duration) (Stock, error) {
	r, err := s.call(ctx, "look", s.keys(id), args{"margin_ms": margin, "lead_ms": lead, "keep_ms": kept, "hour": false})
	if err != nil {
		return Stock{}, err
	}
	return detailedStock(r)
}

// Leave looks a last time at an identity that nobody wants any more, when its tokens
// and orders are over: how they ended is counted, and what is known of it is
// forgotten two days later, unless it is looked at again.
func (s *Tokens) Leave(ctx context.Context, id captcha.ID, margin time.Duration) error {
	_, err := s.call(ctx, "look", s.keys(id), args{"margin_ms": margin, "lead_ms": 0, "keep_ms": keptLeft, "hour": false})
	return err
}

// Survey looks at many identities in one exchange. It fails where nothing can be
// told of any of them; where that is so of some, their Stock says why in Err.
func (s *Tokens) Survey(ctx context.Context, queries []Query) ([]Stock, error) {
	stocks := make([]Stock, len(queries))
	for i, q := range queries {
		// A node that hangs would hold up the others' answers.
		stocks[i].Err = s.away(ctx, string(q.ID))
	}
	answers := make([]*redis.Cmd, len(queries))
	s.pipelined(ctx, "look", func(call func(any, args, ...any) *redis.Cmd) {
		for i, q := range queries {
			if stocks[i].Err == nil {
				answers[i] = call(s.keys(q.ID), args{"margin_ms": q.Margin, "lead_ms": q.Lead, "keep_ms": q.kept(), "hour": q.Hour})
			}
		}
	})
	told := 0
	for i, answer := range answers {
		if stocks[i].Err != nil {
			continue
		}
		stock, err := Stock{}, down(answer.Err())
		if err == nil {
			stock, err = detailedStock(s.script("look").read(answer.Val()))
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

// detailedStock reads the reply of look.lua.
func detailedStock(r *reply) (Stock, error) {
	stock := Stock{
		Paused: r.is("paused"), Pause: readPause(r.text("pause")), Resumes: r.ms("resumes_ms"),
		Fresh: r.int("fresh"), Outliving: r.int("outliving"), Waiting: r.int("waiting"),
		Orders: r.int("orders"), Unknown: r.int("unknown"), Bought: r.int("bought"),
		NextExpiry: r.ms("next_expiry_ms"), NextLook: r.ms("next_look_ms"), NextEnd: r.ms("next_end_ms"),
		HourUsed: r.int("hour_used"), DayUsed: r.int("day_used"),
		OrderAges: durations(r.items("ages")), Leads: durations(r.items("leads")),
		Attempts: readAttempts(r.items("attempts"), int64(r.moment("now"))), hour: r.text("hour"),
	}
	slices.SortFunc(stock.OrderAges, func(a, b time.Duration) int { return cmp.Compare(b, a) })
	for _, v := range r.items("verdicts") {
		stock.Verdicts = append(stock.Verdicts, v == "1")
	}
	for name, value := range pairs(r.items("figures")) {
		if day, is := dayOf(name); is {
			stock.note(day, value)
			continue
		}
		stock.Figures.add(name, value)
	}
	if windows := r.items("windows"); r.err == nil {
		stock.Windows, r.err = readWindows(windows)
	}
	return stock, r.err
}

// pairs reads a hash as a script answers it.
func pairs(items []any) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
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
	if counter := f.counter(name); counter != nil {
		*counter += count
	}
}

// counter is the one of a name in the stats hash; nil where there is none.
func (f *Figures) counter(name string) *int64 {
	switch name {
	case "requests":
		return &f.Requests
	case "hits":
		return &f.Hits
	case "waited":
		return &f.Waited
	case "misses":
		return &f.Misses
	case "refused":
		return &f.Refused
	case "replays":
		return &f.Replays
	case "solved":
		return &f.Solved
	case "expired":
		return &f.Expired
	case "failed":
		return &f.Failed
	case "lost":
		return &f.Lost
	case "returned":
		return &f.Returned
	case "bought":
		return &f.Bought
	case "discarded":
		return &f.Discarded
	case "accepted":
		return &f.Accepted
	case "rejected":
		return &f.Rejected
	case "junk":
		return &f.Junk
	case "spent":
		return &f.Spent
	case "unrecorded":
		return &f.Unrecorded
	}
	return nil
}

// durations reads a list of milliseconds, which Lua gives as numbers and Redis
// lists as text.
func durations(items []any) []time.Duration {
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
