package status

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/redisdb"
)

const (
	// surveyPart is how many identities are looked at in one exchange: so few that a
	// busy Redis answers within partLimit.
	surveyPart = 50
	// partLimit bounds one exchange, and in all those that fail: a status comes within a
	// second while Redis hangs, and a node of a cluster that is away hides no other.
	partLimit = 500 * time.Millisecond
)

// observation is what the stock said of an identity, and when.
type observation struct {
	pool.Stock
	at time.Time
}

// surveyor asks the stock, and remembers what it said for the time when it says nothing.
type surveyor struct {
	stock Stock
	log   *slog.Logger
	known atomic.Pointer[map[captcha.ID]pool.Stock] // the last that Redis said
}

// survey looks at identities, in their order. Those of which Redis said nothing now
// have an Err and the figures of the last time. It fails where it said nothing of any.
func (s *surveyor) survey(ctx context.Context, queries []pool.Query) ([]observation, error) {
	seen := make([]observation, 0, len(queries))
	var failed error
	told, lost := 0, time.Duration(0) // lost: on exchanges that failed
	for part := range slices.Chunk(queries, surveyPart) {
		var stocks []pool.Stock
		began, err := time.Now(), failed
		if lost < partLimit {
			stocks, err = s.ask(ctx, part)
		}
		at := time.Now()
		if err != nil {
			failed = err
			lost += at.Sub(began)
			stocks = slices.Repeat([]pool.Stock{{Err: err}}, len(part))
		} else {
			told += len(part)
		}
		for _, stock := range stocks {
			seen = append(seen, observation{Stock: stock, at: at})
		}
	}
	s.remember(queries, seen)
	if failed != nil {
		s.log.DebugContext(ctx, "surveying the stock for a status", slog.Any("err", failed), slog.Int("told", told))
	}
	if told > 0 {
		failed = nil
	}
	return seen, failed
}

// ask makes one exchange.
func (s *surveyor) ask(ctx context.Context, queries []pool.Query) ([]pool.Stock, error) {
	ctx, cancel := context.WithTimeout(ctx, partLimit)
	defer cancel()
	stocks, err := s.stock.Survey(ctx, queries)
	if err == nil && len(stocks) != len(queries) {
		return nil, redisdb.ErrDown
	}
	return stocks, err
}

// remember keeps what Redis said, and puts what it said before in where it says nothing
// now: counters that fall to zero would look like an identity that was never used.
func (s *surveyor) remember(queries []pool.Query, seen []observation) {
	known := make(map[captcha.ID]pool.Stock, len(queries))
	before := s.known.Load()
	for i, q := range queries {
		if err := seen[i].Err; err != nil {
			if before != nil {
				seen[i].Stock = (*before)[q.ID]
			}
			seen[i].NextExpiry, seen[i].Windows = -1, nil // they are of another moment
			seen[i].Err = err
		}
		known[q.ID] = seen[i].Stock
	}
	s.known.Store(&known)
}
