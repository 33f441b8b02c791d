package purchase

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"sync"

	"poold/internal/captcha"
	"poold/internal/pool"
)

// maxSecrets is the maximum number of former secrets per provider.
const maxSecrets = 32

// DeriveSecret returns the secret that signs callbacks if the file configures no secret.
func DeriveSecret(key captcha.Secret) captcha.Secret {
	return captcha.Secret(hex.EncodeToString(mac(key, "poold callbacks")))
}

// address returns the callback address of an order, or "" if there are no callbacks. The signature
// is part of the path, because services append a query to the address.
func (c Callbacks) address(provider string, order pool.Ref) string {
	if c.URL == "" || len(c.Secrets) == 0 {
		return ""
	}
	return strings.Join([]string{c.URL, "callback", provider, order.String(), sign(c.Secrets[0], provider, order.String())}, "/")
}

// sign returns the signature of a callback address.
func sign(secret captcha.Secret, provider, order string) string {
	return hex.EncodeToString(mac(secret, provider, order)[:16])
}

// mac returns the HMAC-SHA-256 of the joined texts. The texts must not contain a zero byte.
func mac(secret captcha.Secret, texts ...string) []byte {
	hash := hmac.New(sha256.New, []byte(secret.Reveal()))
	_, _ = hash.Write([]byte(strings.Join(texts, "\x00")))
	return hash.Sum(nil)
}

// secrets stores the secrets that sign callback addresses, including those of removed
// providers. It is safe for concurrent use.
type secrets struct {
	mu         sync.Mutex
	byProvider map[string][]captcha.Secret // by provider; the current secrets come last
}

// remember sets the secrets of a provider. It keeps the former secrets, because callbacks of orders
// that were placed before a reload are signed with them.
func (s *secrets) remember(provider string, current []captcha.Secret) {
	s.mu.Lock()
	defer s.mu.Unlock()
	former := slices.DeleteFunc(slices.Clone(s.byProvider[provider]), func(known captcha.Secret) bool {
		return slices.Contains(current, known)
	})
	former = former[max(0, len(former)-maxSecrets):]
	s.byProvider[provider] = append(former, current...)
}

// isGenuine reports whether this daemon issued the callback's address. The check of each secret
// takes constant time. If the provider's name is unknown, isGenuine tries the secrets of all
// providers, because the provider may have been renamed before this process started.
func (s *secrets) isGenuine(c Callback) bool {
	s.mu.Lock()
	candidates, known := s.byProvider[c.Provider]
	if !known {
		candidates = slices.Concat(slices.Collect(maps.Values(s.byProvider))...)
	}
	s.mu.Unlock()
	found := false
	for _, secret := range candidates {
		if hmac.Equal([]byte(sign(secret, c.Provider, c.Order)), []byte(c.Secret)) {
			found = true
		}
	}
	return found
}
