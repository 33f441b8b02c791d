package pool

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/captcha"
	"poold/internal/redisdb"
)

// sharedFor is the life of a shared status.
const sharedFor = time.Hour

// Replicas lists the live replicas and keeps the status that they share.
type Replicas struct{ *client }

// Heartbeat registers this replica as alive for a time. It returns its name and the sorted
// names of all live replicas, including its own.
func (s *Replicas) Heartbeat(ctx context.Context, lasts time.Duration) (self string, live []string, err error) {
	r, err := s.call(ctx, "beat", redisdb.Keys{"replicas": s.replicas()}, args{"replica": s.replica, "life_ms": lasts})
	if err != nil {
		return "", nil, err
	}
	for _, name := range r.List() {
		if text, ok := name.(string); ok {
			live = append(live, text)
		}
	}
	slices.Sort(live)
	return s.replica, live, nil
}

// Leave removes this replica from the live ones.
func (s *Replicas) Leave(ctx context.Context) error {
	return s.db.Slow.ZRem(ctx, s.replicas(), s.replica).Err()
}

// Share keeps the status of an identity for an hour, or until another replica replaces it.
func (s *Replicas) Share(ctx context.Context, id captcha.ID, status []byte) error {
	return s.db.Slow.Set(ctx, s.keys(id).status, status, sharedFor).Err()
}

// Shared returns the last status of each identity, in their order. A status is nil if it is
// missing or its node does not answer. Shared fails if no node answers.
func (s *Replicas) Shared(ctx context.Context, ids []captcha.ID) ([][]byte, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	pipe := s.db.Slow.Pipeline()
	answers := make([]*redis.StringCmd, len(ids))
	for i, id := range ids {
		answers[i] = pipe.Get(ctx, s.keys(id).status)
	}
	_, _ = pipe.Exec(ctx) // the first of the answers' errors
	shared, answered := make([][]byte, len(ids)), false
	for i, a := range answers {
		status, err := a.Bytes()
		if err == nil {
			shared[i] = status
		}
		answered = answered || err == nil || errors.Is(err, redis.Nil)
	}
	if !answered {
		return nil, answers[0].Err()
	}
	return shared, nil
}
