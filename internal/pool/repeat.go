package pool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/captcha"
	"poold/internal/redisdb"
)

// onceName returns the hash of an Idempotency-Key, for the names of Redis keys.
func onceName(idempotency string) string {
	sum := sha256.Sum256([]byte(idempotency))
	return hex.EncodeToString(sum[:16])
}

// Bind binds an Idempotency-Key to an identity for the given time. Bind fails with ErrConflict while
// the key is bound to another identity. Requests that name a target need no binding: they may use one
// key for several targets.
func (s *Tokens) Bind(ctx context.Context, idempotency string, id captcha.ID, life time.Duration) error {
	ours, err := s.callNumber(ctx, "bind", redisdb.Keys{"bound": s.bindingKey(idempotency)}, args{"identity": id, "life_ms": life})
	if err == nil && ours == 0 {
		return ErrConflict
	}
	return err
}

// Repeat returns the token that was handed out for an identity and an Idempotency-Key, until the
// token dies. Repeat changes neither the stock nor the figures. The result's TTL is computed with
// this process' clock.
func (s *Tokens) Repeat(ctx context.Context, id captcha.ID, idempotency, caller string) (token Token, known bool, err error) {
	if err := s.db.Away(ctx, string(id)); err != nil {
		return Token{}, false, err
	}
	signer, err := s.secret.Signer(ctx)
	if err != nil {
		return Token{}, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, redisdb.CallTimeout)
	defer cancel()
	handed, err := s.db.Hot.Get(ctx, s.keys(id).once+onceName(idempotency)).Result()
	if errors.Is(err, redis.Nil) {
		return Token{}, false, nil
	}
	if err != nil {
		return Token{}, false, redisdb.Down(err)
	}
	_, element, _ := strings.Cut(handed, "|") // the element follows the min_ttl
	token, err = parseElement(element, time.Now().UnixMilli())
	if err != nil {
		return Token{}, false, err
	}
	token.Source, token.ID = FromReplay, signer.ID(token.Order, caller)
	return token, true, nil
}

// FirstHolder reports whether the given holder of a claim is the first that hands out this token.
// Redis stores the first holder until the token dies, so that a retry gets the same result.
func (s *Tokens) FirstHolder(ctx context.Context, id captcha.ID, t Token, holder string) (bool, error) {
	if err := s.db.Away(ctx, string(id)); err != nil {
		return false, err
	}
	key := s.keys(id).first + t.Order
	noted, err := s.db.Slow.SetNX(ctx, key, holder, max(t.TTL, time.Second)).Result()
	if err != nil || noted {
		return noted, err
	}
	was, err := s.db.Slow.Get(ctx, key).Result()
	if errors.Is(err, redis.Nil) { // the token died meanwhile
		return false, nil
	}
	return was == holder, err
}
