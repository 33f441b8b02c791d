// Package permits keeps the state of provider accounts that all replicas share. Permits limit the
// tasks in flight at an account. The standing of a provider is the number of submits that it
// refused in a row and, if the provider is down, its fault.
//
// Package purchase acquires a permit before it places an order, and releases the permit when the order
// ends. A permit that is not released expires. While a provider is down, Acquire gives a permit to
// only one order in each interval. This order is the probe. Package permits does not call
// providers, and does not decide whether a provider is down.
//
// # Keys
//
// The prefix of these keys is "captcha"; {provider} is the name of a provider in pools.yaml.
//
//	captcha:providers            zset  provider -> Unix ms until which it may have permits
//	captcha:places:{provider}    zset  order.id -> Unix ms at which the permit ends
//	captcha:standing:{provider}  hash  see lua/standing.lua
package permits

import (
	"context"
	"embed"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/pool"
	"poold/internal/redisdb"
)

//go:embed lua/*.lua
var sources embed.FS

var scripts = redisdb.LoadScripts(sources, nil)

const (
	// nameEvery is the minimum interval between two writes of a provider's name by one process.
	nameEvery = time.Hour
	// nameKept is how long Redis keeps a provider's name after a write. It exceeds the sum of
	// nameEvery and of the life of the longest permit, which is a day.
	nameKept = 26 * time.Hour
)

// Permits reads and writes the permits and standings in Redis.
type Permits struct {
	db    *redisdb.DB
	noted redisdb.Seldom // limits the writes of providers' names
}

// New returns a Permits that uses db. The caller opens, runs and closes db.
func New(db *redisdb.DB) *Permits {
	return &Permits{db: db, noted: redisdb.Seldom{Every: nameEvery}}
}

// keys has the Redis keys of a provider's account, in one slot.
type keys struct{ permits, standing string }

func (s *Permits) keys(provider string) keys {
	tag := ":{" + provider + "}"
	return keys{permits: s.db.Prefix + ":places" + tag, standing: s.db.Prefix + ":standing" + tag}
}

// providersKey returns the key of the list of providers that may have permits in use.
func (s *Permits) providersKey() string { return s.db.Prefix + ":providers" }

// Permit is the result of Acquire.
type Permit struct {
	OK bool
	At pool.RedisTime // time of the decision
	// Wait is the time until a replica may place an order at the provider. It is positive if the
	// provider is down or refused the last submits. If OK is false and Wait is 0, all permits are in
	// use.
	Wait     time.Duration
	Refusals int // submits that the provider refused in a row
}

// Acquire gives an order a permit at a provider if the number of permits in use, over all replicas,
// is below the limit. If the order already has a permit, Acquire can only shorten the permit's life
// to ttl. The argument answered is the age of the latest call of this replica that the provider
// answered; below 0 = there is none.
func (s *Permits) Acquire(ctx context.Context, provider string, order pool.Ref, limit int, ttl, answered time.Duration) (Permit, error) {
	if err := s.writeName(ctx, provider); err != nil {
		return Permit{}, err
	}
	if answered < 0 {
		answered = -time.Millisecond
	}
	r, err := s.db.Call(ctx, scripts.Get("acquire"), s.keys(provider), redisdb.Args{
		"order": order.String(), "limit": limit, "ttl_ms": ttl, "answered_ms": answered,
	})
	if err != nil {
		return Permit{}, err
	}
	return Permit{OK: r.Is("outcome"), At: pool.RedisTime(r.Int("now")), Wait: r.Duration("wait_ms"), Refusals: r.Int("refusals")}, r.Err
}

// writeName writes the provider's name to Redis. With this name, even replicas whose pools.yaml
// lacks the provider find its permits. For each provider, writeName makes at most one exchange with
// Redis per nameEvery.
func (s *Permits) writeName(ctx context.Context, provider string) error {
	return s.noted.Do(provider, func(at time.Time) error {
		pipe := s.db.Slow.Pipeline()
		pipe.ZAdd(ctx, s.providersKey(), redis.Z{Score: float64(at.Add(nameKept).UnixMilli()), Member: provider})
		pipe.ZRemRangeByScore(ctx, s.providersKey(), "-inf", strconv.FormatInt(at.UnixMilli(), 10))
		pipe.PExpire(ctx, s.providersKey(), nameKept)
		_, err := pipe.Exec(ctx)
		return err
	})
}

// Providers returns the names of the providers at which any replica may have permits. Providers uses this
// process' clock.
func (s *Permits) Providers(ctx context.Context) ([]string, error) {
	return s.db.Slow.ZRangeArgs(ctx, redis.ZRangeArgs{
		Key: s.providersKey(), ByScore: true, Start: strconv.FormatInt(time.Now().UnixMilli(), 10), Stop: "+inf",
	}).Result()
}

// Release ends the permit of an order. If the order has no permit, Release does nothing.
func (s *Permits) Release(ctx context.Context, provider string, order pool.Ref) error {
	return s.db.Slow.ZRem(ctx, s.keys(provider).permits, order.String()).Err()
}

// Holders returns the orders that have a permit at a provider.
func (s *Permits) Holders(ctx context.Context, provider string) ([]pool.Ref, error) {
	members, err := s.db.Slow.ZRange(ctx, s.keys(provider).permits, 0, -1).Result()
	if err != nil {
		return nil, err
	}
	refs := make([]pool.Ref, 0, len(members))
	for _, member := range members {
		if ref, ok := pool.ParseRef(member); ok {
			refs = append(refs, ref)
		}
	}
	return refs, nil
}

// InFlight returns the number of permits in use at each provider, by this process' clock. A number is
// -1 if it cannot be read. If no number can be read, InFlight returns an error.
func (s *Permits) InFlight(ctx context.Context, providers []string) ([]int, error) {
	from := strconv.FormatInt(time.Now().UnixMilli(), 10)
	counts := make([]int, len(providers))
	pipe := s.db.Slow.Pipeline()
	answers := make([]*redis.IntCmd, len(providers))
	var err error
	for i, provider := range providers {
		if err = s.db.Away(ctx, provider); err == nil {
			answers[i] = pipe.ZCount(ctx, s.keys(provider).permits, from, "+inf")
		}
	}
	if pipe.Len() > 0 {
		_, _ = pipe.Exec(ctx) // each answer has its own error
	}
	known := len(providers) == 0
	for i, answer := range answers {
		counts[i] = -1
		if answer == nil {
			continue
		}
		if answer.Err() != nil {
			err = answer.Err()
			continue
		}
		counts[i], known = int(answer.Val()), true
	}
	if !known {
		return nil, err
	}
	return counts, nil
}
