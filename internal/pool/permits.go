package pool

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// nameEvery is how often a process writes down that it buys at a provider.
	nameEvery = time.Hour
	// nameKept outlives that and the longest permit: a task may take a day.
	nameKept = 26 * time.Hour
)

// Acquire takes a permit at a provider for an order, over all replicas; the same
// order may ask again, has one permit, and can shorten its life. answered is how long ago
// the latest call was sent that the provider answered here; below 0 = there is none.
func (s *Orders) Acquire(ctx context.Context, provider string, order Ref, limit int, ttl, answered time.Duration) (Permit, error) {
	if err := s.note(ctx, provider); err != nil {
		return Permit{}, err
	}
	if answered < 0 {
		answered = -time.Millisecond
	}
	r, err := s.call(ctx, "acquire", s.providerKeys(provider), args{
		"order": order.String(), "limit": limit, "ttl_ms": ttl, "answered_ms": answered,
	})
	if err != nil {
		return Permit{}, err
	}
	return Permit{OK: r.Is("outcome"), At: Moment(r.Int("now")), Wait: r.Duration("wait_ms"), Refusals: r.Int("refusals")}, r.Err
}

// note writes the provider's name to Redis, so that replicas find its permits also if their
// configuration no longer has the provider. Once in nameEvery this costs a permit one more
// exchange.
func (s *Orders) note(ctx context.Context, provider string) error {
	return s.noted.do(provider, func(at time.Time) error {
		pipe := s.db.Slow.Pipeline()
		pipe.ZAdd(ctx, s.providers(), redis.Z{Score: float64(at.Add(nameKept).UnixMilli()), Member: provider})
		pipe.ZRemRangeByScore(ctx, s.providers(), "-inf", strconv.FormatInt(at.UnixMilli(), 10))
		pipe.PExpire(ctx, s.providers(), nameKept)
		_, err := pipe.Exec(ctx)
		return err
	})
}

// Providers lists the names of providers at which there may be permits, of any
// replica that bought in the last day. It judges by this process' clock.
func (s *Orders) Providers(ctx context.Context) ([]string, error) {
	names, err := s.db.Slow.ZRangeArgs(ctx, redis.ZRangeArgs{
		Key: s.providers(), ByScore: true, Start: strconv.FormatInt(time.Now().UnixMilli(), 10), Stop: "+inf",
	}).Result()
	return names, err
}

// Release gives a permit back; it is no error if the order has none.
func (s *Orders) Release(ctx context.Context, provider string, order Ref) error {
	return s.db.Slow.ZRem(ctx, s.permits(provider), order.String()).Err()
}

// Permits lists the orders that hold a permit at a provider.
func (s *Orders) Permits(ctx context.Context, provider string) ([]Ref, error) {
	members, err := s.db.Slow.ZRange(ctx, s.permits(provider), 0, -1).Result()
	if err != nil {
		return nil, err
	}
	refs := make([]Ref, 0, len(members))
	for _, member := range members {
		if ref, ok := ParseRef(member); ok {
			refs = append(refs, ref)
		}
	}
	return refs, nil
}

// InFlight counts the permits in use at each provider, -1 where Redis does not tell;
// it fails where it tells nothing. It judges by this process' clock, which is good
// enough to be looked at.
func (s *Orders) InFlight(ctx context.Context, providers []string) ([]int, error) {
	from := strconv.FormatInt(time.Now().UnixMilli(), 10)
	counts := make([]int, len(providers))
	pipe := s.db.Slow.Pipeline()
	answers := make([]*redis.IntCmd, len(providers))
	var err error
	for i, provider := range providers {
		if err = s.db.Away(ctx, provider); err == nil {
			answers[i] = pipe.ZCount(ctx, s.permits(provider), from, "+inf")
		}
	}
	if pipe.Len() > 0 {
		_, _ = pipe.Exec(ctx) // each answer has its own error
	}
	told := len(providers) == 0
	for i, answer := range answers {
		counts[i] = -1
		if answer == nil {
			continue
		}
		if answer.Err() != nil {
			err = answer.Err()
			continue
		}
		counts[i], told = int(answer.Val()), true
	}
	if !told {
		return nil, err
	}
	return counts, nil
}
