package pool

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"hash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// tokenSigner makes the IDs of tokens. Only the caller that got a token knows the token's ID. The IDs
// are signed, so that Redis need not store them.
type tokenSigner struct {
	secret string
	macs   sync.Pool // reuses hash.Hash values to save allocations
}

func newTokenSigner(secret string) *tokenSigner {
	return &tokenSigner{secret: secret, macs: sync.Pool{New: func() any { return hmac.New(sha256.New, []byte(secret)) }}}
}

// name returns the ID of an order's token for a caller. The ID consists of the order's id and a proof
// that this caller got the token.
func (s *tokenSigner) name(order, caller string) string {
	const proof = 12 // length in bytes; short, because a correct guess only allows a report
	mac, _ := s.macs.Get().(hash.Hash)
	defer s.macs.Put(mac)
	mac.Reset()
	// The hashed text and the ID share a buffer to save an allocation in each hand-out.
	buffer := make([]byte, 0, 160)
	buffer = append(append(append(buffer, order...), 0), caller...)
	_, _ = mac.Write(buffer)
	var sum [sha256.Size]byte
	buffer = append(append(buffer[:0], order...), '.')
	return string(base64.RawURLEncoding.AppendEncode(buffer, mac.Sum(sum[:0])[:proof]))
}

// signing keeps a tokenSigner with the secret that all replicas share.
type signing struct {
	*client

	known atomic.Pointer[tokenSigner] // nil until the secret is read
}

// signer returns the tokenSigner. The first call reads the secret from Redis.
func (s *signing) signer(ctx context.Context) (*tokenSigner, error) {
	if known := s.known.Load(); known != nil {
		return known, nil
	}
	if err := s.refresh(ctx); err != nil {
		return nil, err
	}
	return s.known.Load(), nil
}

// keep refreshes the secret every hour until ctx ends. After a failure, it tries again every second.
func (s *signing) keep(ctx context.Context) {
	for {
		wait := time.Hour
		if !s.db.Up() || s.refresh(ctx) != nil {
			wait = time.Second
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// refresh reads the secret from Redis and extends the secret's life. If Redis has no secret, refresh
// stores the known secret or a new one.
func (s *signing) refresh(ctx context.Context) error {
	secret := rand.Text()
	if known := s.known.Load(); known != nil {
		secret = known.secret
	}
	if err := s.db.Slow.SetNX(ctx, s.secretKey(), secret, keyLife).Err(); err != nil {
		return err
	}
	shared, err := s.db.Slow.GetEx(ctx, s.secretKey(), keyLife).Result()
	switch {
	case errors.Is(err, redis.Nil):
		shared = secret // the stored secret expired between the two commands; the next refresh stores it again
	case err != nil:
		return err
	}
	if known := s.known.Load(); known == nil || known.secret != shared {
		s.known.Store(newTokenSigner(shared))
	}
	return nil
}
