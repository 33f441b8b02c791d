package pool

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/captcha"
)

// Sale is what is known of a token that was handed out.
type Sale struct {
	Provider string
	Task     string        // the provider's id
	Age      time.Duration // since it can have been solved
}

// Report counts how a token did, once. It fails with ErrUnknownToken where the
// caller did not get the token, or it died more than 15 min ago, and with
// ErrReported the second time.
func (s *Store) Report(ctx context.Context, id captcha.ID, token, caller string, accepted bool) (Sale, error) {
	seal, err := s.seal(ctx)
	if err != nil {
		return Sale{}, err
	}
	order, _, _ := strings.Cut(token, ".")
	if subtle.ConstantTimeCompare([]byte(seal.name(order, caller)), []byte(token)) != 1 {
		return Sale{}, ErrUnknownToken
	}
	mark := "0"
	if accepted {
		mark = "1"
	}
	k := s.keys(id)
	reply, err := s.run(ctx, s.scripts.report, []string{k.sold + order, k.stats, k.verdicts}, mark, rand.Text())
	if err != nil {
		return Sale{}, err
	}
	n, err := integers(reply, 2)
	if err != nil {
		return Sale{}, err
	}
	switch {
	case n[0] == 0:
		return Sale{}, ErrUnknownToken
	case n[0] < 0:
		return Sale{}, ErrReported
	}
	text, _ := reply.([]any)[2].(string)
	provider, task, _ := strings.Cut(text, "|")
	if task, err = url.QueryUnescape(task); err != nil {
		return Sale{}, fmt.Errorf("pool: a sale's task: %w", err)
	}
	return Sale{Provider: provider, Task: task, Age: time.Duration(n[1]) * time.Millisecond}, nil
}

// sealer names tokens so that only who got one can name it. Nothing needs to be
// written down at a hand-out for that.
type sealer struct {
	secret string
	macs   sync.Pool // of hash.Hash: a take should not pay for a new one
}

func newSealer(secret string) *sealer {
	return &sealer{secret: secret, macs: sync.Pool{New: func() any { return hmac.New(sha256.New, []byte(secret)) }}}
}

// name is the order's id and a proof that the caller was given it.
func (s *sealer) name(order, caller string) string {
	const proof = 12 // bytes; who guesses one can do no more than report
	mac, _ := s.macs.Get().(hash.Hash)
	defer s.macs.Put(mac)
	mac.Reset()
	// One buffer serves for what is hashed and for the name: a take makes one of
	// these for every token.
	buffer := make([]byte, 0, 160)
	buffer = append(append(append(buffer, order...), 0), caller...)
	_, _ = mac.Write(buffer)
	var sum [sha256.Size]byte
	buffer = append(append(buffer[:0], order...), '.')
	return string(base64.RawURLEncoding.AppendEncode(buffer, mac.Sum(sum[:0])[:proof]))
}

// seal returns the sealer, asking Redis for the secret the first time.
func (s *Store) seal(ctx context.Context) (*sealer, error) {
	if known := s.sealer.Load(); known != nil {
		return known, nil
	}
	if err := s.unseal(ctx); err != nil {
		return nil, err
	}
	return s.sealer.Load(), nil
}

// unseal reads the secret that all replicas share; the first one makes it. It
// must be done now and then, so that Redis does not forget it.
func (s *Store) unseal(ctx context.Context) error {
	secret := rand.Text()
	if known := s.sealer.Load(); known != nil {
		secret = known.secret
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := s.slow.SetNX(ctx, s.secret(), secret, pauseTTL).Err(); err != nil {
		return down(err)
	}
	shared, err := s.slow.GetEx(ctx, s.secret(), pauseTTL).Result()
	switch {
	case errors.Is(err, redis.Nil):
		shared = secret // it ran out between two lines of ours; the next turn writes it again
	case err != nil:
		return down(err)
	}
	if known := s.sealer.Load(); known == nil || known.secret != shared {
		s.sealer.Store(newSealer(shared))
	}
	return nil
}
