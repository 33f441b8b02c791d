package pool

import (
	"context"
	"fmt"
	"sort"
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
}

// Look tells what one identity holds.
func (s *Store) Look(ctx context.Context, id captcha.ID, margin, lead time.Duration) (Stock, error) {
	reply, err := s.run(ctx, s.scripts.look, s.lookKeys(id), margin.Milliseconds(), lead.Milliseconds())
	if err != nil {
		return Stock{}, err
	}
	return detailedStock(reply)
}

// Survey looks at many identities in one exchange.
func (s *Store) Survey(ctx context.Context, queries []Query) ([]Stock, error) {
	if len(queries) == 0 {
		return nil, nil
	}
	stocks, err := s.survey(ctx, queries)
	if err == nil || !redis.HasErrorPrefix(err, "NOSCRIPT") {
		return stocks, err
	}
	// A pipeline has no fall-back of its own for a script that Redis forgot.
	if err := s.load(ctx); err != nil {
		return nil, err
	}
	return s.survey(ctx, queries)
}

func (s *Store) survey(ctx context.Context, queries []Query) ([]Stock, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	pipe := s.slow.Pipeline()
	answers := make([]*redis.Cmd, len(queries))
	for i, q := range queries {
		answers[i] = s.scripts.look.EvalSha(ctx, pipe, s.lookKeys(q.ID), q.Margin.Milliseconds(), q.Lead.Milliseconds())
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, down(err)
	}
	stocks := make([]Stock, len(queries))
	for i, answer := range answers {
		stock, err := detailedStock(answer.Val())
		if err != nil {
			return nil, err
		}
		stocks[i] = stock
	}
	return stocks, nil
}

// load puts the look script into every Redis node.
func (s *Store) load(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if cluster, ok := s.slow.(*redis.ClusterClient); ok {
		return down(cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
			return s.scripts.look.Load(ctx, node).Err()
		}))
	}
	return down(s.scripts.look.Load(ctx, s.slow).Err())
}

func (s *Store) lookKeys(id captcha.ID) []string {
	k := s.keys(id)
	return []string{k.tokens, k.orders, k.journal, k.tickets, k.seen, k.stats, k.paused, k.leads}
}

// stockOf reads the six numbers of counts in common.lua.
func stockOf(n []int64) Stock {
	return Stock{
		Fresh: int(n[0]), Outliving: int(n[1]), Orders: int(n[2]), Waiting: int(n[3]),
		NextExpiry: time.Duration(n[4]) * time.Millisecond,
		NextLook:   time.Duration(n[5]) * time.Millisecond,
	}
}

// detailedStock reads the answer of look.lua.
func detailedStock(reply any) (Stock, error) {
	n, err := integers(reply, 7)
	if err != nil {
		return Stock{}, err
	}
	list := reply.([]any)
	if len(list) != 10 {
		return Stock{}, fmt.Errorf("pool: look answered %d values", len(list))
	}
	stock := stockOf(n[1:])
	stock.Paused = n[0] == 1
	stock.OrderAges = durations(list[7])
	sort.Slice(stock.OrderAges, func(i, j int) bool { return stock.OrderAges[i] > stock.OrderAges[j] })
	stock.Leads = durations(list[8])
	pairs, _ := list[9].([]any)
	for i := 0; i+1 < len(pairs); i += 2 {
		name, _ := pairs[i].(string)
		value, _ := pairs[i+1].(string)
		count, _ := strconv.ParseInt(value, 10, 64)
		stock.Figures.set(name, count)
	}
	return stock, nil
}

// set stores one counter of the stats hash; unknown names belong to another
// version and are ignored.
func (f *Figures) set(name string, count int64) {
	switch name {
	case "requests":
		f.Requests = count
	case "hits":
		f.Hits = count
	case "waited":
		f.Waited = count
	case "misses":
		f.Misses = count
	case "replays":
		f.Replays = count
	case "solved":
		f.Solved = count
	case "expired":
		f.Expired = count
	case "failed":
		f.Failed = count
	case "lost":
		f.Lost = count
	case "returned":
		f.Returned = count
	}
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
