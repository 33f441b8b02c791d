package targets

import (
	"testing"
)

// Without keys, ListenFault accepts only loopback addresses.
func TestListenFaultNeedsKeysBeyondLoopback(t *testing.T) {
	for _, tc := range []struct {
		listen string
		keys   int
		want   string
	}{
		{"127.0.0.1:8080", 0, ""},
		{"127.8.8.8:0", 0, ""},
		{"[::1]:8080", 0, ""},
		{"[::ffff:127.0.0.1]:8080", 0, ""},
		{"localhost:8080", 0, ""},
		{":8080", 0, openWithoutKeys},
		{"0.0.0.0:8080", 0, openWithoutKeys},
		{"[::]:8080", 0, openWithoutKeys},
		{"192.0.2.1:8080", 0, openWithoutKeys},
		{"localhost.example.com:8080", 0, openWithoutKeys},
		{"127.0.0.1.example.com:8080", 0, openWithoutKeys},
		{"0:8080", 0, openWithoutKeys},
		{"2130706433:8080", 0, openWithoutKeys},
		{":8080", 1, ""},
		{"host.example.com:443", 1, ""},
		{"127.0.0.1", 1, badListen},
		{"127.0.0.1:", 1, badListen},
		{"127.0.0.1:http", 1, badListen},
		{"127.0.0.1:65536", 1, badListen},
		{"127.0.0.1:+1", 1, badListen},
		{"", 1, badListen},
	} {
		if got := ListenFault(tc.listen, tc.keys); got != tc.want {
			t.Errorf("%q with %d keys: %v, want %v", tc.listen, tc.keys, got, tc.want)
		}
	}
}
