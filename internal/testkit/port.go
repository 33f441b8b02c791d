package testkit

import (
	"math/rand/v2"
	"net"
	"testing"
)

// FreePort returns a TCP port of the loopback address that no server has, and reserves it until
// the test ends: it holds the UDP port of the same number, which FreePort tries first, also in
// other processes. The system does not choose ports below 20000 for outgoing connections.
func FreePort(t testing.TB) int {
	t.Helper()
	for range 1000 {
		address := net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 10000 + rand.IntN(10000)} //nolint:gosec // G404: any port will do
		reserved, err := net.ListenUDP("udp", &net.UDPAddr{IP: address.IP, Port: address.Port})
		if err != nil {
			continue
		}
		free, err := net.ListenTCP("tcp", &address)
		if err != nil {
			_ = reserved.Close()
			continue
		}
		_ = free.Close()
		t.Cleanup(func() { _ = reserved.Close() })
		return address.Port
	}
	t.Fatal("no port between 10000 and 20000 is free")
	return 0
}
