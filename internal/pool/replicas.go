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

// sharedFor is how long what a replica says of an identity is kept.
const sharedFor = time.Hour

// Replicas is what the daemons on one Redis tell each other of themselves.
type Replicas struct{ *client }

// Beat says that this replica lives for so long from now on. It returns its name, and
// the names of all that live, sorted, its own among them.
func (s *Replicas) Beat(ctx context.Context, lasts time.Duration) (self string, live []string, err error) {
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

// End tells the others that this replica lives no more.
func (s *Replicas) End(ctx context.Context) error {
	return s.db.Slow.ZRem(ctx, s.replicas(), s.replica).Err()
}

// Share keeps what this replica says of an identity, for an hour or until one says
// something else.
func (s *Replicas) Share(ctx context.Context, id captcha.ID, status []byte) error {
	return s.db.Slow.Set(ctx, s.keys(id).status, status, sharedFor).Err()
}

// Shared is what was said last of identities, in their order; nil where nothing was, or
// where Redis does not answer for one. It fails where it answers for none.
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
