package targets

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
)

// Without keys, CheckListen accepts only loopback addresses.
func TestCheckListenNeedsKeysBeyondLoopback(t *testing.T) {
	for _, tc := range []struct {
		listen string
		keys   int
		want   error
	}{
		{"127.0.0.1:8080", 0, nil},
		{"127.8.8.8:0", 0, nil},
		{"[::1]:8080", 0, nil},
		{"[::ffff:127.0.0.1]:8080", 0, nil},
		{"localhost:8080", 0, nil},
		{":8080", 0, errOpenWithoutKeys},
		{"0.0.0.0:8080", 0, errOpenWithoutKeys},
		{"[::]:8080", 0, errOpenWithoutKeys},
		{"192.0.2.1:8080", 0, errOpenWithoutKeys},
		{"localhost.example.com:8080", 0, errOpenWithoutKeys},
		{"127.0.0.1.example.com:8080", 0, errOpenWithoutKeys},
		{"0:8080", 0, errOpenWithoutKeys},
		{"2130706433:8080", 0, errOpenWithoutKeys},
		{":8080", 1, nil},
		{"host.example.com:443", 1, nil},
		{"127.0.0.1", 1, errListenForm},
		{"127.0.0.1:", 1, errListenForm},
		{"127.0.0.1:http", 1, errListenForm},
		{"127.0.0.1:65536", 1, errListenForm},
		{"127.0.0.1:+1", 1, errListenForm},
		{"", 1, errListenForm},
	} {
		if got := CheckListen(tc.listen, tc.keys); !errors.Is(got, tc.want) {
			t.Errorf("%q with %d keys: %v, want %v", tc.listen, tc.keys, got, tc.want)
		}
	}
}

// A key with fewer than 8 characters is refused, and a key with fewer than 16 characters causes a
// warning. The length of a hashed key is unknown. No message quotes a key.
func TestShortKeysAreRefusedOrWarnedOf(t *testing.T) {
	const (
		refused = "pools.yaml:4: server.keys.ci.key: must be at least 8 characters long, or it can be guessed: make one with `openssl rand -hex 16`"
		warned  = "pools.yaml:4: server.keys.ci.key: is shorter than 16 characters and may be guessed: make one with `openssl rand -hex 16`\n"
	)
	for _, tc := range []struct{ key, err, warning string }{
		{key: "key: x", err: refused},
		{key: "key: hunter2", err: refused},
		{key: "key: ${KEY:-hunter2}", err: refused},
		{key: "key: hunter22", warning: warned},
		{key: "key: hunter2-hunter2", warning: warned},
		{key: "key: hunter2-hunter22"},
		{key: "key_sha256: " + hex.EncodeToString(hashOf("x"))},
	} {
		set, err := Parse("pools.yaml", []byte("server:\n  keys:\n    - name: ci\n      "+tc.key+"\n      scopes: [token]\n"+minimal()), References{})
		if tc.err != "" {
			if err == nil || err.Error() != tc.err {
				t.Errorf("%s: %v", tc.key, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tc.key, err)
			continue
		}
		if got := warnings(set); strings.Contains(got, "server.keys") != (tc.warning != "") || !strings.Contains(got, tc.warning) {
			t.Errorf("%s: warnings\n%s", tc.key, got)
		}
	}
}

func hashOf(key string) []byte {
	sum := sha256.Sum256([]byte(key))
	return sum[:]
}
