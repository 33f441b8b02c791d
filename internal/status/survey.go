package status

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
)

const (
	// surveyPart is how many identities are looked at in one exchange: so few that a
	// busy Redis answers within partLimit.
	surveyPart = 200
	// partLimit bounds one exchange. The first that fails ends the survey, so that a
	// status comes within a second while Redis hangs.
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
// have an Err and the figures of the last time. It fails with the reason where Redis
// could not be asked about all of them.
func (s *surveyor) survey(ctx context.Context, queries []pool.Query) ([]observation, error) {
	seen := make([]observation, 0, len(queries))
	var failed error
	for begin := 0; begin < len(queries) && failed == nil; begin += surveyPart {
		part := queries[begin:min(begin+surveyPart, len(queries))]
		var stocks []pool.Stock
		if stocks, failed = s.ask(ctx, part); failed != nil {
			s.log.DebugContext(ctx, "surveying the stock for a status", slog.Any("err", failed))
		}
		at := time.Now()
		for _, stock := range stocks {
			seen = append(seen, observation{Stock: stock, at: at})
		}
	}
	for range queries[len(seen):] {
		seen = append(seen, observation{Stock: pool.Stock{Err: failed}})
	}
	s.remember(queries, seen)
	return seen, failed
}

// ask makes one exchange.
func (s *surveyor) ask(ctx context.Context, queries []pool.Query) ([]pool.Stock, error) {
	ctx, cancel := context.WithTimeout(ctx, partLimit)
	defer cancel()
	stocks, err := s.stock.Survey(ctx, queries)
	if err == nil && len(stocks) != len(queries) {
		return nil, pool.ErrDown
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
