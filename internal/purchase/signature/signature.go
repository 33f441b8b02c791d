// Package signature signs the callback addresses of orders and checks their signatures.
package signature

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"sync"

	"poold/internal/captcha"
)

// MaxFormer is the maximum number of former secrets per provider.
const MaxFormer = 32

// Derive returns the secret that signs callbacks if the file configures no secret.
func Derive(key captcha.Secret) captcha.Secret {
	return captcha.Secret(hex.EncodeToString(MAC(key, "poold callbacks")))
}

// Of returns the signature of a callback address.
func Of(secret captcha.Secret, provider, order string) string {
	return hex.EncodeToString(MAC(secret, provider, order)[:16])
}

// MAC returns the HMAC-SHA-256 of the joined texts. The texts must not contain a zero byte.
func MAC(secret captcha.Secret, texts ...string) []byte {
	hash := hmac.New(sha256.New, []byte(secret.Reveal()))
	_, _ = hash.Write([]byte(strings.Join(texts, "\x00")))
	return hash.Sum(nil)
}

// Secrets stores the secrets that sign callback addresses, including those of removed providers. It is
// safe for concurrent use. The zero value contains no secret.
type Secrets struct {
	mu         sync.Mutex
	byProvider map[string][]captcha.Secret // by provider; the current secrets come last
}

// Remember sets the secrets of a provider. It keeps the former secrets, because callbacks of orders
// that were placed before a reload are signed with them.
func (s *Secrets) Remember(provider string, current []captcha.Secret) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byProvider == nil {
		s.byProvider = map[string][]captcha.Secret{}
	}
	former := slices.DeleteFunc(slices.Clone(s.byProvider[provider]), func(known captcha.Secret) bool {
		return slices.Contains(current, known)
	})
	former = former[max(0, len(former)-MaxFormer):]
	s.byProvider[provider] = append(former, current...)
}

// IsGenuine reports whether this daemon issued a callback address. The check of each secret takes
// constant time. If the provider's name is unknown, IsGenuine tries the secrets of all providers,
// because the provider may have been renamed before this process started.
func (s *Secrets) IsGenuine(provider, order, signature string) bool {
	s.mu.Lock()
	candidates, known := s.byProvider[provider]
	if !known {
		candidates = slices.Concat(slices.Collect(maps.Values(s.byProvider))...)
	}
	s.mu.Unlock()
	found := false
	for _, secret := range candidates {
		if hmac.Equal([]byte(Of(secret, provider, order)), []byte(signature)) {
			found = true
		}
	}
	return found
}
