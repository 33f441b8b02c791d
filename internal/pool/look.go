package pool

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"poold/internal/captcha"
	"poold/internal/redisdb"
)

// Query is a request for the Stock of one identity.
type Query struct {
	ID     captcha.ID
	Margin time.Duration
	Lead   time.Duration
	// Keep extends the life of the identity's keys to 30 days. One query with Keep per hour is
	// enough.
	Keep bool
	Hour bool // whether the Stock includes the last hour; see Stock.Hour
	Want int  // number of tokens that the policy wants; see Period.Want; -1 = unknown
}

const (
	// keyLife is how long an identity's keys exist after the last look with Keep. The time should
	// exceed any period in which all replicas are down.
	keyLife = 30 * 24 * time.Hour
	// leftKeyLife is how long an identity's keys exist after its last target was removed. An order and
	// its token live for at most a day each. So the figures outlive all purchases of a replica with an
	// older pools.yaml.
	leftKeyLife = 50 * time.Hour
)

// keyLife returns the new life of the identity's keys; 0 = unchanged.
func (q Query) keyLife() time.Duration {
	if q.Keep {
		return keyLife
	}
	return 0
}

// Look returns the Stock of one identity and extends the life of its keys.
func (s *Tokens) Look(ctx context.Context, id captcha.ID, margin, lead time.Duration) (Stock, error) {
	r, err := s.call(ctx, "look", s.keys(id), args{"margin_ms": margin, "lead_ms": lead, "keep_ms": keyLife, "hour": false, "want": -1})
	if err != nil {
		return Stock{}, err
	}
	return detailedStock(r)
}

// LastLook must be called for an identity that no longer has a target, after its tokens and orders
// have expired. LastLook counts expired tokens and orders. The keys then expire in two days unless a
// later look extends their life.
func (s *Tokens) LastLook(ctx context.Context, id captcha.ID, margin time.Duration) error {
	_, err := s.call(ctx, "look", s.keys(id), args{"margin_ms": margin, "lead_ms": 0, "keep_ms": leftKeyLife, "hour": false, "want": -1})
	return err
}

// LookAll returns the Stock of the identity of each query, in one exchange. If one Stock cannot be
// read, its field Err is set. LookAll fails only if it can read no Stock.
func (s *Tokens) LookAll(ctx context.Context, queries []Query) ([]Stock, error) {
	stocks := make([]Stock, len(queries))
	for i, q := range queries {
		// If the node of an identity hangs, its call is skipped, because the call would delay the replies
		// of the other nodes.
		stocks[i].Err = s.db.Away(ctx, string(q.ID))
	}
	answers := make([]*redisdb.Answer, len(queries))
	s.pipelined(ctx, "look", func(call redisdb.Add) {
		for i, q := range queries {
			if stocks[i].Err == nil {
				answers[i] = call(s.keys(q.ID), args{"margin_ms": q.Margin, "lead_ms": q.Lead, "keep_ms": q.keyLife(), "hour": q.Hour, "want": q.Want})
			}
		}
	})
	answered := 0
	for i, answer := range answers {
		if stocks[i].Err != nil {
			continue
		}
		stock, err := Stock{}, answer.Err()
		if err == nil {
			stock, err = detailedStock(s.script("look").Read(answer.Val()))
		}
		stocks[i], stocks[i].Err = stock, err
		if err == nil {
			answered++
		}
	}
	if answered == 0 && len(queries) > 0 {
		return nil, stocks[0].Err
	}
	return stocks, nil
}

func detailedStock(r *redisdb.Reply) (Stock, error) {
	stock := Stock{
		Paused: r.Is("paused"), Pause: readPause(r.Text("pause")), Resumes: r.Duration("resumes_ms"),
		Fresh: r.Int("fresh"), Outliving: r.Int("outliving"), Waiting: r.Int("waiting"),
		Orders: r.Int("orders"), Unknown: r.Int("unknown"), Bought: r.Int("bought"),
		NextExpiry: r.Duration("next_expiry_ms"), NextLook: r.Duration("next_look_ms"), NextEnd: r.Duration("next_end_ms"),
		HourUsed: r.Int("hour_used"), DayUsed: r.Int("day_used"),
		OrderAges: durations(r.Items("ages")), Leads: durations(r.Items("leads")),
		Attempts: readAttempts(redisdb.HashOf(r.Items("attempts")), int64(r.Int("now"))), hour: r.Text("hour"),
	}
	slices.SortFunc(stock.OrderAges, func(a, b time.Duration) int { return cmp.Compare(b, a) })
	for _, v := range r.Items("verdicts") {
		stock.Verdicts = append(stock.Verdicts, v == "1")
	}
	for name, value := range redisdb.Pairs(r.Items("figures")) {
		if day, is := dayOf(name); is {
			stock.note(day, value)
			continue
		}
		stock.Figures.add(name, value)
	}
	return stock, r.Err
}

// durations converts a list of milliseconds. An item is an integer from Lua or a string from a Redis
// list.
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
