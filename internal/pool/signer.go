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

// tokenSigner makes the IDs of tokens, which only the caller that got the token knows. A
// hand-out needs no further key in Redis for that.
type tokenSigner struct {
	secret string
	macs   sync.Pool // of hash.Hash: a take should not pay for a new one
}

func newTokenSigner(secret string) *tokenSigner {
	return &tokenSigner{secret: secret, macs: sync.Pool{New: func() any { return hmac.New(sha256.New, []byte(secret)) }}}
}

// name returns the order's id and a proof that the caller got its token.
func (s *tokenSigner) name(order, caller string) string {
	const proof = 12 // bytes; a caller that guesses one can only report
	mac, _ := s.macs.Get().(hash.Hash)
	defer s.macs.Put(mac)
	mac.Reset()
	// One buffer for the hashed text and the name, because each hand-out makes a name.
	buffer := make([]byte, 0, 160)
	buffer = append(append(append(buffer, order...), 0), caller...)
	_, _ = mac.Write(buffer)
	var sum [sha256.Size]byte
	buffer = append(append(buffer[:0], order...), '.')
	return string(base64.RawURLEncoding.AppendEncode(buffer, mac.Sum(sum[:0])[:proof]))
}

// signing knows the secret that all replicas share.
type signing struct {
	*client

	known atomic.Pointer[tokenSigner] // nil until the secret is read
}

// signer asks Redis for the secret the first time.
func (s *signing) signer(ctx context.Context) (*tokenSigner, error) {
	if known := s.known.Load(); known != nil {
		return known, nil
	}
	if err := s.refresh(ctx); err != nil {
		return nil, err
	}
	return s.known.Load(), nil
}

// keep refreshes the secret every hour until ctx ends.
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

// refresh reads the secret and prolongs its life; the first replica makes it.
func (s *signing) refresh(ctx context.Context) error {
	secret := rand.Text()
	if known := s.known.Load(); known != nil {
		secret = known.secret
	}
	if err := s.db.Slow.SetNX(ctx, s.secret(), secret, keyLife).Err(); err != nil {
		return err
	}
	shared, err := s.db.Slow.GetEx(ctx, s.secret(), keyLife).Result()
	switch {
	case errors.Is(err, redis.Nil):
		shared = secret // it expired between the two commands; the next refresh writes it
	case err != nil:
		return err
	}
	if known := s.known.Load(); known == nil || known.secret != shared {
		s.known.Store(newTokenSigner(shared))
	}
	return nil
}
