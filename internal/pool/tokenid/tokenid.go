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
	"strings"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"poold/internal/redisdb"
)

// Signer makes and checks IDs with the secret that it is.
type Signer string

// ID returns the ID of an order's token for a caller.
func (s Signer) ID(order, caller string) string {
	const proof = 12 // length in bytes; short, because a correct guess only allows a report
	mac := hmac.New(sha256.New, []byte(s))
	_, _ = mac.Write([]byte(order + "\x00" + caller))
	return order + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:proof])
}

// Order returns the order in an ID; false if no replica gave this ID to the caller.
func (s Signer) Order(id, caller string) (order string, valid bool) {
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
func (s *Secret) Signer(ctx context.Context) (Signer, error) {
	if known := s.signer.Load(); known != nil {
		return *known, nil
	}
	secret, err := s.db.Slow.Get(ctx, s.key).Result() // first, because it works without free memory
	if errors.Is(err, redis.Nil) {
		if err := s.db.Slow.SetNX(ctx, s.key, rand.Text(), 0).Err(); err != nil {
			return "", err
		}
		secret, err = s.db.Slow.Get(ctx, s.key).Result() // another replica may have stored its secret first
	}
	if err != nil {
		return "", err
	}
	signer := Signer(secret)
	s.signer.Store(&signer)
	return signer, nil
}

// Forget makes the next call of Signer read the secret: Redis has lost its data.
func (s *Secret) Forget() { s.signer.Store(nil) }
