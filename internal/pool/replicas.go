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

// sharedFor is how long Redis keeps a shared status.
const sharedFor = time.Hour

// Replicas stores the list of live replicas, and the status of each identity, which all replicas
// share.
type Replicas struct{ *client }

// Heartbeat registers this replica as alive for the given time. The results are the name of this
// replica and the sorted names of all live replicas, including this replica.
func (s *Replicas) Heartbeat(ctx context.Context, life time.Duration) (self string, live []string, err error) {
	r, err := s.call(ctx, "beat", redisdb.Keys{"replicas": s.replicasKey()}, args{"replica": s.replica, "life_ms": life})
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

// Leave removes this replica from the list of live replicas.
func (s *Replicas) Leave(ctx context.Context) error {
	return s.db.Slow.ZRem(ctx, s.replicasKey(), s.replica).Err()
}

// Share stores the status of an identity for an hour. The next status of the identity from any
// replica replaces it.
func (s *Replicas) Share(ctx context.Context, id captcha.ID, status []byte) error {
	return s.db.Slow.Set(ctx, s.keys(id).status, status, sharedFor).Err()
}

// Shared returns the last shared status of each identity, in the sequence of ids. A status is nil if
// no replica shared one in the last hour, or if Redis cannot return it. Shared returns an error only
// if every status is unreadable.
func (s *Replicas) Shared(ctx context.Context, ids []captcha.ID) ([][]byte, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	pipe := s.db.Slow.Pipeline()
	answers := make([]*redis.StringCmd, len(ids))
	for i, id := range ids {
		answers[i] = pipe.Get(ctx, s.keys(id).status)
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
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
