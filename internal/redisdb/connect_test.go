package redisdb

import (
	"strings"
	"testing"
)

// Addresses may hold passwords: an error never shows them.
func TestBadAddressesAreNotQuoted(t *testing.T) {
	const canary = "canary-password"
	for _, address := range []string{
		"http://:" + canary + "@127.0.0.1:1", "redis://:" + canary + "@127.0.0.1:1/x/y", "redis://:" + canary + "@[::1", canary,
		"redis://127.0.0.1:1,nonsense://:" + canary + "@127.0.0.1:2", "redis://:" + canary + "@127.0.0.1:1/3,redis://127.0.0.1:2",
	} {
		s, err := Open(Options{Addresses: address})
		if err == nil {
			_ = s.Close()
			t.Errorf("%q was accepted", address)
		} else if strings.Contains(err.Error(), canary) {
			t.Errorf("%q: the error shows the password: %v", address, err)
		}
	}
}
