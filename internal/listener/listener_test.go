package listener

import (
	"context"
	"net"
	"testing"
	"time"

	"poold/internal/testkit"
)

// The port closes connections beyond a limit, logs this once, and serves again when a connection
// has ended. New limits apply at once.
func TestPortClosesConnectionsBeyondALimit(t *testing.T) {
	for _, c := range []struct {
		limits Limits
		logged string
		counts Counts // after two accepted and two refused connections
	}{
		{Limits{All: 2, PerAddress: 9}, "parameter=server.connections limit=2", Counts{Open: 2, RefusedAll: 2}},
		{Limits{All: 9, PerAddress: 2}, "parameter=server.connections_per_address limit=2", Counts{Open: 2, RefusedPerAddress: 2}},
	} {
		log := new(testkit.Log)
		port, err := Listen(context.Background(), "127.0.0.1:0", c.limits, log.Logger())
		if err != nil {
			t.Fatal(err)
		}
		accepted := make(chan net.Conn)
		go func() {
			defer close(accepted)
			for {
				conn, err := port.Accept()
				if err != nil {
					return
				}
				accepted <- conn
			}
		}()
		dial := func() net.Conn {
			conn, err := net.Dial("tcp", port.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			return conn
		}
		refused := func(conn net.Conn) {
			t.Helper()
			_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
			if _, err := conn.Read(make([]byte, 1)); err == nil || isTimeout(err) {
				t.Errorf("%+v: a connection beyond the limit got %v", c.limits, err)
			}
		}
		dial()
		first := <-accepted
		dial()
		second := <-accepted
		refused(dial())
		refused(dial())
		if n := port.Counts(); n != c.counts {
			t.Errorf("%+v, want %+v", n, c.counts)
		}
		if log.Count(c.logged, "address=127.0.0.1") != 1 || log.Count("") != 1 {
			t.Errorf("want one line with %s, got:\n%s", c.logged, log.String())
		}
		_ = first.Close()
		_ = first.Close() // counts once
		dial()
		third := <-accepted
		refused(dial())
		port.SetLimits(Limits{All: 3, PerAddress: 3})
		dial()
		fourth := <-accepted
		for _, conn := range []net.Conn{second, third, fourth} {
			_ = conn.Close()
		}
		if port.Counts().Open != 0 || len(port.of) != 0 {
			t.Errorf("%d connections are still counted, %d addresses", port.Counts().Open, len(port.of))
		}
		_ = port.Close()
		<-accepted
	}
}

func isTimeout(err error) bool {
	timeout, ok := err.(net.Error) //nolint:errorlint // net returns the error unwrapped
	return ok && timeout.Timeout()
}

// TestAddressIgnoresPortAndHalfOfIPv6: the port is ignored, and all IPv6 addresses of a /64 network
// share one count.
func TestAddressIgnoresPortAndHalfOfIPv6(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.1:1": "192.0.2.1/32", "[::ffff:192.0.2.1]:9": "192.0.2.1/32", "[2001:db8:1:2:3:4:5:6]:1": "2001:db8:1:2::/64",
		"[fe80::1%eth0]:1": "fe80::/64", "[::1]:1": "::/64", "@": "invalid Prefix", "": "invalid Prefix", "192.0.2.1": "invalid Prefix",
	} {
		if got := Network(remote).String(); got != want {
			t.Errorf("%q: %s, want %s", remote, got, want)
		}
	}
}
