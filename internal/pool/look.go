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
	answers := make([]*redis.Cmd, len(queries))
	err := s.pipelined(ctx, s.scripts.look, func(ctx context.Context, pipe redis.Pipeliner) {
		for i, q := range queries {
			answers[i] = s.scripts.look.EvalSha(ctx, pipe, s.lookKeys(q.ID), q.Margin.Milliseconds(), q.Lead.Milliseconds())
		}
	})
	if err != nil {
		return nil, err
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

// pipelined sends many calls of one script in one exchange. fill may be called
// twice: a pipeline has no fall-back of its own for a script that Redis forgot.
func (s *Store) pipelined(ctx context.Context, script *redis.Script, fill func(context.Context, redis.Pipeliner)) error {
	try := func() error {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		pipe := s.slow.Pipeline()
		fill(ctx, pipe)
		if pipe.Len() == 0 {
			return nil
		}
		_, err := pipe.Exec(ctx)
		return down(err)
	}
	err := try()
	if err == nil || !redis.HasErrorPrefix(err, "NOSCRIPT") {
		return err
	}
	if err := s.load(ctx, script); err != nil {
		return err
	}
	return try()
}

// load puts a script into every Redis node.
func (s *Store) load(ctx context.Context, script *redis.Script) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if cluster, ok := s.slow.(*redis.ClusterClient); ok {
		return down(cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
			return script.Load(ctx, node).Err()
		}))
	}
	return down(script.Load(ctx, s.slow).Err())
}

func (s *Store) lookKeys(id captcha.ID) []string {
	k := s.keys(id)
	return []string{k.tokens, k.orders, k.journal, k.tickets, k.seen, k.stats, k.paused, k.leads, k.leases, k.spend, k.verdicts, k.warm}
}

// detailedStock reads the answer of look.lua.
func detailedStock(reply any) (Stock, error) {
	const plain, all = 12, 17
	n, err := integers(reply, plain)
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
	pairs, _ := list[15].([]any)
	for i := 0; i+1 < len(pairs); i += 2 {
		name, _ := pairs[i].(string)
		value, _ := pairs[i+1].(string)
		count, _ := strconv.ParseInt(value, 10, 64)
		stock.Figures.set(name, count)
	}
	stock.Windows, err = windows(list[16])
	return stock, err
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
	case "bought":
		f.Bought = count
	case "discarded":
		f.Discarded = count
	case "accepted":
		f.Accepted = count
	case "rejected":
		f.Rejected = count
	case "spent":
		f.Spent = count
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
