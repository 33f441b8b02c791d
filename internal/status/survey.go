package status

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/refill"
	"poold/internal/targets"
)

const (
	// surveyPart is the number of targets in one exchange with Redis. Even a busy Redis needs less than
	// partLimit for such an exchange.
	surveyPart = 25
	partLimit  = time.Second
)

// observation is the stock of a target as last read.
type observation struct {
	pool.Stock
	Err error // of the present read; nil = the stock is the present one
}

// surveyor reads the stock of many targets. For unreadable ones it returns the last known figures, so that their
// counters do not fall to zero.
type surveyor struct {
	stock Stock
	log   *slog.Logger
	known atomic.Pointer[map[captcha.ID]pool.Stock] // the last known figures
}

// survey reads the stock of the targets of a set. After a failure it reads no more, and fails if it has read none.
func (s *surveyor) survey(ctx context.Context, set *targets.Set) ([]observation, error) {
	seen, queries := make([]observation, len(set.Targets)), make([]pool.Query, len(set.Targets))
	before := map[captcha.ID]pool.Stock{}
	if last := s.known.Load(); last != nil {
		before = *last
	}
	for i := range set.Targets {
		t := &set.Targets[i]
		last := before[t.ID]
		seen[i].Stock = last
		seen[i].NextExpiry = -1 // it was relative to the time of the read
		queries[i] = pool.Query{ID: t.ID, Margin: t.Margin, Lead: cmp.Or(refill.StatusOf(t, &last.Counts).Lead, unknownLead)}
	}
	var failed error
	read := 0
	for part := range slices.Chunk(queries, surveyPart) {
		var stocks []pool.Stock
		if failed == nil {
			stocks, failed = s.readPart(ctx, part)
		}
		for _, stock := range stocks {
			seen[read].Stock = stock
			read++
		}
	}
	known := make(map[captcha.ID]pool.Stock, len(seen))
	for i := range seen {
		if known[queries[i].ID] = seen[i].Stock; i >= read {
			seen[i].Err = failed
		}
	}
	s.known.Store(&known)
	if failed != nil {
		s.log.DebugContext(ctx, "part of the stock not read for the status", slog.Any("err", failed), slog.Int("targets", len(seen)), slog.Int("read", read))
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
	return s.stock.LookAll(ctx, queries)
}
