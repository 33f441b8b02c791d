package kernel

import "testing"

// TestAddressIgnoresPortAndHalfOfIPv6: the port is ignored, and all IPv6 addresses of a /64 network
// share one count.
func TestAddressIgnoresPortAndHalfOfIPv6(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.1:1": "192.0.2.1/32", "[::ffff:192.0.2.1]:9": "192.0.2.1/32", "[2001:db8:1:2:3:4:5:6]:1": "2001:db8:1:2::/64",
		"[fe80::1%eth0]:1": "fe80::/64", "[::1]:1": "::/64", "@": "invalid Prefix", "": "invalid Prefix", "192.0.2.1": "invalid Prefix",
	} {
		if got := network(remote).String(); got != want {
			t.Errorf("%q: %s, want %s", remote, got, want)
		}
	}
}
