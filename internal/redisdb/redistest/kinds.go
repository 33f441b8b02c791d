package redistest

import (
	"context"
	"maps"
	"net"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/alicebob/miniredis/v2"

	"poold/internal/testkit"
)

// Place describes how a client reaches a server. The fields are values for the options with the same
// names.
type Place struct {
	Addresses      string
	SentinelMaster string
	Dial           func(ctx context.Context, network, addr string) (net.Conn, error) // nil = the network
}

// BubbleAddress is the address of the server that InBubble starts, for the field Addresses of a
// Place.
const BubbleAddress = "redis://bubble"

// OnEvery runs a suite on every kind of server, because every script must behave alike on all kinds: on a single
// server, on a cluster and, in bubbles, on the embedded server. Only the tests in connections also run on a master with
// sentinels and on the embedded server over TCP, because there only the way to the server differs. With the race
// detector the suite runs on the single server alone: poold runs the same code on all kinds.
func OnEvery(t *testing.T, suite map[string]func(*testing.T, Place), connections []string) {
	every := slices.Collect(maps.Keys(suite))
	run := func(kind string, names []string, start func(t *testing.T) Place) {
		if len(names) == 0 || testkit.RaceEnabled && kind != "single" {
			return
		}
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			place := start(t)
			for _, name := range names {
				t.Run(name, func(t *testing.T) { suite[name](t, place) })
			}
		})
	}
	if !testkit.RaceEnabled {
		t.Run("bubble", func(t *testing.T) {
			for name, test := range suite {
				t.Run(name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { test(t, Place{Addresses: BubbleAddress, Dial: InBubble(t).Dial}) })
				})
			}
		})
	}
	run("single", every, func(t *testing.T) Place { return Place{Addresses: "redis://" + Server(t)} })
	run("cluster", every, func(t *testing.T) Place { return Place{Addresses: urls(ClusterOf(t))} })
	run("sentinel", connections, func(t *testing.T) Place {
		return Place{Addresses: urls(SentinelNodes(t)[2:]), SentinelMaster: MasterName}
	})
	run("embedded", connections, func(t *testing.T) Place {
		return Place{Addresses: "redis://" + miniredis.RunT(t).Addr()}
	})
}
