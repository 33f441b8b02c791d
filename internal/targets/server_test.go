package targets

import (
	"errors"
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
