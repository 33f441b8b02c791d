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

// mostSecrets bounds the former secrets of a provider that are kept.
const mostSecrets = 32

// DeriveSecret returns the secret that signs callbacks if the file has none.
func DeriveSecret(key captcha.Secret) captcha.Secret {
	mac := hmac.New(sha256.New, []byte(key.Reveal()))
	_, _ = mac.Write([]byte("poold callbacks"))
	return captcha.Secret(hex.EncodeToString(mac.Sum(nil)))
}

// address returns the callback address of an order; "" = no callback. The signature is in the path,
// because services append a query.
func (c Callbacks) address(provider string, order pool.Ref) string {
	if c.URL == "" || len(c.Secrets) == 0 {
		return ""
	}
	return strings.Join([]string{c.URL, "callback", provider, order.String(), sign(c.Secrets[0], provider, order.String())}, "/")
}

// sign returns the signature of a callback address.
func sign(secret captcha.Secret, provider, order string) string {
	mac := hmac.New(sha256.New, []byte(secret.Reveal()))
	_, _ = mac.Write([]byte(provider + "\x00" + order))
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// secrets has the secrets that sign callback addresses, by provider, also of removed providers. It
// is safe for concurrent use.
type secrets struct {
	mu sync.Mutex
	of map[string][]captcha.Secret // the current ones last
}

// remember sets the secrets of a provider. It keeps former ones for the callbacks of orders that
// were placed before a reload.
func (s *secrets) remember(provider string, current []captcha.Secret) {
	s.mu.Lock()
	defer s.mu.Unlock()
	former := slices.DeleteFunc(slices.Clone(s.of[provider]), func(known captcha.Secret) bool {
		return slices.Contains(current, known)
	})
	former = former[max(0, len(former)-mostSecrets):]
	s.of[provider] = append(former, current...)
}

// genuine reports whether this daemon made the callback's address, in constant time for each
// secret. If the provider's name is unknown, it tries the secrets of all providers: the provider may
// have been renamed before this process started.
func (s *secrets) genuine(c Callback) bool {
	s.mu.Lock()
	candidates, known := s.of[c.Provider]
	if !known {
		candidates = slices.Concat(slices.Collect(maps.Values(s.of))...)
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
