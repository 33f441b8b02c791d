package testkit

import (
	"math/rand/v2"
	"net"
	"testing"
)

// FreePort returns a TCP port of the loopback address on which no server listens. It reserves the
// port until the test ends by keeping the UDP port of the same number open. FreePort in another
// process then skips this port. The port is below 20000, because the system does not choose such
// ports for outgoing connections.
func FreePort(t testing.TB) int {
	t.Helper()
	for range 1000 {
		address := net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 10000 + rand.IntN(10000)}
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
