// Package signature signs the callback addresses of orders and checks their signatures.
package signature

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"sync"

	"poold/internal/captcha"
)

// Derive returns the secret that signs callbacks if the file configures no secret.
func Derive(key captcha.Secret) captcha.Secret {
	return captcha.Secret(hex.EncodeToString(MAC(key, "poold callbacks")))
}

// Of returns the signature for the callback address of an order.
func Of(secret captcha.Secret, provider, order string) string {
	return hex.EncodeToString(MAC(secret, provider, order)[:16])
}

// MAC returns the HMAC-SHA-256 of the joined texts. The texts must not contain a zero byte.
func MAC(secret captcha.Secret, texts ...string) []byte {
	hash := hmac.New(sha256.New, []byte(secret.Reveal()))
	_, _ = hash.Write([]byte(strings.Join(texts, "\x00")))
	return hash.Sum(nil)
}

// Secrets stores the secrets that sign callback addresses, also for removed providers. It is safe for
// concurrent use. The zero value contains no secret.
type Secrets struct {
	all sync.Map // captcha.Secret -> true
}

// Remember adds the secrets of a provider. It keeps the former ones, because callbacks of orders that were
// placed before a reload are signed with them.
func (s *Secrets) Remember(current []captcha.Secret) {
	for _, secret := range current {
		s.all.Store(secret, true)
	}
}

// IsGenuine reports whether this daemon issued a callback address. It tries the secrets of all providers,
// because a provider may have been renamed. The check of each secret takes constant time.
func (s *Secrets) IsGenuine(provider, order, signature string) (found bool) {
	s.all.Range(func(secret, _ any) bool {
		expected := Of(secret.(captcha.Secret), provider, order) //nolint:forcetypeassert // see all
		found = hmac.Equal([]byte(expected), []byte(signature))
		return !found
	})
	return found
}
