// Package tokenid makes and checks the IDs of tokens.
//
// The ID of a token consists of the id of its order and a proof that a certain caller got the token.
// So only that caller knows the ID, and Redis need not store IDs. The proof is signed with a secret
// that all replicas share in Redis.
package tokenid

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"hash"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"poold/internal/redisdb"
)

// Signer makes and checks IDs. It is safe for concurrent use.
type Signer struct {
	secret string
	macs   sync.Pool // reuses hash.Hash values to save allocations
}

func newSigner(secret string) *Signer {
	return &Signer{secret: secret, macs: sync.Pool{New: func() any { return hmac.New(sha256.New, []byte(secret)) }}}
}

// ID returns the ID of an order's token for a caller.
func (s *Signer) ID(order, caller string) string {
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

// Order returns the order in an ID. It returns false if no replica gave this ID to the caller.
func (s *Signer) Order(id, caller string) (order string, valid bool) {
	order, _, _ = strings.Cut(id, ".")
	return order, subtle.ConstantTimeCompare([]byte(s.ID(order, caller)), []byte(id)) == 1
}

// Secret reads the secret that all replicas share.
type Secret struct {
	db     *redisdb.DB
	key    string
	signer atomic.Pointer[Signer] // nil until the secret is read
}

// New returns a Secret that is stored under a key.
func New(db *redisdb.DB, key string) *Secret { return &Secret{db: db, key: key} }

// Signer returns the Signer. The first call reads the secret from Redis, and stores a new one if there is none.
func (s *Secret) Signer(ctx context.Context) (*Signer, error) {
	if known := s.signer.Load(); known != nil {
		return known, nil
	}
	secret, err := s.db.Slow.Get(ctx, s.key).Result() // first, because it works without free memory
	if errors.Is(err, redis.Nil) {
		if err := s.db.Slow.SetNX(ctx, s.key, rand.Text(), 0).Err(); err != nil {
			return nil, err
		}
		secret, err = s.db.Slow.Get(ctx, s.key).Result() // another replica may have stored its secret first
	}
	if err != nil {
		return nil, err
	}
	signer := newSigner(secret)
	s.signer.Store(signer)
	return signer, nil
}

// Forget makes the next call of Signer read the secret again, because Redis has lost its data.
func (s *Secret) Forget() { s.signer.Store(nil) }
