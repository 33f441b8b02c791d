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
	// surveyPart is the number of identities in one exchange with Redis. Even a busy Redis needs
	// less than partLimit for such an exchange.
	surveyPart = 50
	// partLimit limits each exchange with Redis, and the total time of failing exchanges. A snapshot
	// therefore takes at most a second while Redis hangs. An unreachable cluster node does not hide
	// the figures of the other nodes.
	partLimit = 500 * time.Millisecond
)

// observation is the stock of an identity at a certain time.
type observation struct {
	pool.Stock
	at time.Time // zero = not read yet
}

// surveyor reads the stock of many identities. For unreadable identities, a surveyor returns the
// last known figures.
type surveyor struct {
	stock Stock
	log   *slog.Logger
	known atomic.Pointer[map[captcha.ID]pool.Stock] // the last known figures
}

// survey completes the argument seen, which has an observation for each query, and returns it. The
// survey reads only the identities whose observation is zero. The observation of an unreadable
// identity contains an Err and the last known figures. The survey fails only if all identities are
// unreadable.
func (s *surveyor) survey(ctx context.Context, queries []pool.Query, seen []observation) ([]observation, error) {
	var unread []pool.Query
	var places []*observation // of the queries in unread
	for i := range seen {
		if seen[i].at.IsZero() {
			unread, places = append(unread, queries[i]), append(places, &seen[i])
		}
	}
	var failed error
	read, lost := len(queries)-len(unread), time.Duration(0) // lost is the total time of failed exchanges
	for part := range slices.Chunk(unread, surveyPart) {
		var stocks []pool.Stock
		began, err := time.Now(), failed
		if lost < partLimit {
			stocks, err = s.readPart(ctx, part)
		}
		at := time.Now()
		if err != nil {
			failed = err
			lost += at.Sub(began)
			stocks = slices.Repeat([]pool.Stock{{Err: err}}, len(part))
		} else {
			read += len(part)
		}
		for i, stock := range stocks {
			*places[i] = observation{Stock: stock, at: at}
		}
		places = places[len(stocks):]
	}
	s.remember(queries, seen)
	if failed != nil {
		s.log.DebugContext(ctx, "part of the stock not read for the status", slog.Any("err", failed), slog.Int("identities", len(queries)), slog.Int("read", read))
	}
	if read > 0 {
		failed = nil
	}
	return seen, failed
}

// readPart reads one part of the queries in one exchange with Redis.
func (s *surveyor) readPart(ctx context.Context, queries []pool.Query) ([]pool.Stock, error) {
	ctx, cancel := context.WithTimeout(ctx, partLimit)
	defer cancel()
	stocks, err := s.stock.LookAll(ctx, queries)
	if err == nil && len(stocks) != len(queries) {
		return nil, redisdb.ErrDown
	}
	return stocks, err
}

// remember stores the figures of readable identities. Unreadable identities get the last known
// figures, so that their counters do not fall to zero.
func (s *surveyor) remember(queries []pool.Query, seen []observation) {
	known, before := make(map[captcha.ID]pool.Stock, len(queries)), map[captcha.ID]pool.Stock{}
	if last := s.known.Load(); last != nil {
		before = *last
	}
	for i, q := range queries {
		if err := seen[i].Err; err != nil {
			seen[i].Stock = before[q.ID]
			seen[i].NextExpiry = -1 // NextExpiry is relative to the time of the read
			seen[i].Err = err
		}
		known[q.ID] = seen[i].Stock
	}
	s.known.Store(&known)
}
