package targets

import (
	"fmt"
	"strings"
	"testing"

	"poold/internal/testkit"
)

func TestListenFaultNeedsKeysBeyondLoopback(t *testing.T) {
	const loopback = "127.0.0.1:8080 127.8.8.8:0 [::1]:8080 [::ffff:127.0.0.1]:8080 localhost:8080"
	const open = ":8080 0.0.0.0:8080 [::]:8080 192.0.2.1:8080 localhost.example.com:8080 127.0.0.1.example.com:8080 " +
		"0:8080 2130706433:8080"
	const bad = "127.0.0.1 127.0.0.1: 127.0.0.1:http 127.0.0.1:65536 127.0.0.1:+1 -"
	for _, c := range []struct {
		list string
		keys int
		want string
	}{{loopback, 0, ""}, {open, 0, openWithoutKeys}, {loopback + " " + open + " host.example.com:443", 1, ""},
		{bad, 1, badListen}} {
		for listen := range strings.FieldsSeq(c.list) {
			fault := ListenFault(strings.TrimPrefix(listen, "-"), c.keys)
			testkit.Equal(t, fmt.Sprintf("%q with %d keys", listen, c.keys), fault, c.want)
		}
	}
}
