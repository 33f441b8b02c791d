package session

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"poold/internal/redisdb"
)

// Life is the time from the login to the end of a session.
const Life = 12 * time.Hour

const (
	secretLife = 30 * 24 * time.Hour // lifetime of the secret in Redis since the last login
	// rereadAfter is the minimum interval between two reads of the secret after invalid signatures. If
	// Redis has lost the secret, valid cookies of other replicas also have invalid signatures.
	rereadAfter = 10 * time.Second
)

// Key is a key of the configuration file.
type Key struct {
	Name   string
	Digest [sha256.Size]byte // SHA-256 of the key
}

// Signer signs and checks cookies. It is safe for concurrent use.
type Signer struct {
	db *redisdb.DB

	mu     sync.Mutex
	secret []byte // nil = not read yet
	read   time.Time
}

// New returns a Signer that keeps its secret in this Redis.
func New(db *redisdb.DB) *Signer { return &Signer{db: db} }

// Begin returns the cookie of a new session, and the end of the session. It fails if Redis cannot
// be used.
func (s *Signer) Begin(ctx context.Context, key Key, now time.Time) (cookie string, ends time.Time, err error) {
	secret, err := s.shared(ctx, now)
	if err != nil {
		return "", time.Time{}, fmt.Errorf("reading the secret of the sessions: %w", err)
	}
	ends = now.Add(Life).Truncate(time.Second)
	signed := base64.RawURLEncoding.EncodeToString([]byte(key.Name)) + "." + strconv.FormatInt(ends.Unix(), 10)
	return signed + "." + base64.RawURLEncoding.EncodeToString(sign(secret, signed, key.Digest)), ends, nil
}

// Find returns the index of the key with which a session began, or -1 if the cookie is malformed,
// has expired, or was made with none of the keys.
func (s *Signer) Find(ctx context.Context, cookie string, keys []Key, now time.Time) int {
	dot := strings.LastIndexByte(cookie, '.')
	if dot < 0 {
		return -1
	}
	signed := cookie[:dot]
	name, end, _ := strings.Cut(signed, ".")
	ends, err := strconv.ParseInt(end, 10, 64)
	signature, err2 := base64.RawURLEncoding.DecodeString(cookie[dot+1:])
	plain, err3 := base64.RawURLEncoding.DecodeString(name)
	if errors.Join(err, err2, err3) != nil || now.Unix() >= ends {
		return -1
	}
	signer := func(secret []byte) int {
		return slices.IndexFunc(keys, func(key Key) bool {
			return secret != nil && key.Name == string(plain) && hmac.Equal(signature, sign(secret, signed, key.Digest))
		})
	}
	if i := signer(s.known()); i >= 0 {
		return i
	}
	return signer(s.reread(ctx, now))
}

func sign(secret []byte, signed string, digest [sha256.Size]byte) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write(digest[:])
	mac.Write([]byte(signed))
	return mac.Sum(nil)
}

// known returns the secret that this replica read last, or nil.
func (s *Signer) known() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.secret
}

// reread reads the secret again. It returns nil if the last read is too recent, or if Redis has no
// secret or cannot be used.
func (s *Signer) reread(ctx context.Context, now time.Time) []byte {
	s.mu.Lock()
	recent := !s.read.IsZero() && now.Sub(s.read) < rereadAfter
	s.read = now
	s.mu.Unlock()
	if recent {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, redisdb.CallTimeout)
	defer cancel()
	secret, err := s.db.Slow.Get(limited, s.key()).Bytes()
	if err != nil {
		return nil
	}
	s.keep(secret, now)
	return secret
}

// shared returns the secret of all replicas. If Redis has none, shared stores a new one.
func (s *Signer) shared(ctx context.Context, now time.Time) ([]byte, error) {
	limited, cancel := context.WithTimeout(ctx, redisdb.CallTimeout)
	defer cancel()
	made := make([]byte, sha256.Size)
	_, _ = rand.Read(made) // never fails: crypto/rand ends the program instead
	if err := s.db.Slow.SetNX(limited, s.key(), made, secretLife).Err(); err != nil {
		return nil, err
	}
	secret, err := s.db.Slow.Get(limited, s.key()).Bytes()
	if err == nil {
		err = s.db.Slow.PExpire(limited, s.key(), secretLife).Err()
	}
	if err != nil {
		return nil, err
	}
	s.keep(secret, now)
	return secret, nil
}

func (s *Signer) keep(secret []byte, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.secret, s.read = secret, now
}

func (s *Signer) key() string { return s.db.Prefix + ":session:secret" }
