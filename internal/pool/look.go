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

// Query asks for the Stock of one identity.
type Query struct {
	ID     captcha.ID
	Margin time.Duration
	Lead   time.Duration
	// Keep extends the life of the identity's keys to 30 days. One look an hour with it is
	// enough.
	Keep bool
	Hour bool // the Stock includes the last hour
}

const (
	// kept is how long an identity's keys outlive the last look with Keep. It exceeds any
	// downtime of all replicas.
	kept = 30 * 24 * time.Hour
	// keptLeft is how long the keys outlive the last target. A token and an order live for a
	// day each, so the figures also cover the purchases of a replica with an older file.
	keptLeft = 50 * time.Hour
)

// kept returns the new life of the keys; 0 = unchanged.
func (q Query) kept() time.Duration {
	if q.Keep {
		return kept
	}
	return 0
}

// Look returns the Stock of one identity and extends the life of its keys.
func (s *Tokens) Look(ctx context.Context, id captcha.ID, margin, lead time.Duration) (Stock, error) {
	r, err := s.call(ctx, "look", s.keys(id), args{"margin_ms": margin, "lead_ms": lead, "keep_ms": kept, "hour": false})
	if err != nil {
		return Stock{}, err
	}
	return detailedStock(r)
}

// Leave is the last look at an identity without a target, after its tokens and orders have
// ended: it counts how they ended and lets the keys expire in two days, unless another look
// keeps them.
func (s *Tokens) Leave(ctx context.Context, id captcha.ID, margin time.Duration) error {
	_, err := s.call(ctx, "look", s.keys(id), args{"margin_ms": margin, "lead_ms": 0, "keep_ms": keptLeft, "hour": false})
	return err
}

// Survey looks at many identities in one exchange. An identity without an answer has the cause
// in its Stock's Err. Survey fails if none has an answer.
func (s *Tokens) Survey(ctx context.Context, queries []Query) ([]Stock, error) {
	stocks := make([]Stock, len(queries))
	for i, q := range queries {
		// A node that hangs would delay the answers of the others.
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

// pairs iterates over a hash as a script replies it.
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

// add adds to the counter of a name in the stats hash. It ignores names of other versions.
func (f *Figures) add(name, value string) {
	count, _ := strconv.ParseInt(value, 10, 64)
	if counter := f.counter(name); counter != nil {
		*counter += count
	}
}

// counter returns the counter of a name in the stats hash; nil if the name is unknown.
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

// durations reads a list of milliseconds: numbers from Lua, texts from a Redis list.
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
