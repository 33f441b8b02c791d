package redistest

import (
	"maps"
	"slices"
	"strings"
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
	Dial           Dialer // nil = the network
}

// Kind is one way to run Redis. Every script must behave alike on all kinds.
type Kind struct {
	Name  string
	Known bool // whether this kind differs from another kind only in how clients reach the server
	Start func(t testing.TB) Place
}

// Kinds returns all kinds, beginning with the single server. With the race detector it returns only
// the single server.
func Kinds() []Kind {
	all := []Kind{
		{"single", false, func(t testing.TB) Place { return Place{Addresses: "redis://" + Server(t)} }},
		{"cluster", false, func(t testing.TB) Place {
			return Place{Addresses: "redis://" + strings.Join(Cluster(t), ",redis://")}
		}},
		{"sentinel", true, func(t testing.TB) Place {
			return Place{Addresses: "redis://" + strings.Join(Sentinel(t), ",redis://"), SentinelMaster: MasterName}
		}},
		{"embedded", true, func(t testing.TB) Place { return Place{Addresses: "redis://" + miniredis.RunT(t).Addr()} }},
	}
	if testkit.RaceEnabled {
		return all[:1] // poold runs the same code on all kinds
	}
	return all
}

// BubbleAddress is the address of the server that InBubble starts, for the field Addresses of a
// Place.
const BubbleAddress = "redis://bubble"

// OnEvery runs a suite on every kind of server. All tests run on a single server, on a cluster and,
// in bubbles, on the embedded server. With sentinels, and on the embedded server over TCP, only the
// tests in connectionTests run. These tests depend on how a client reaches the server.
func OnEvery(t *testing.T, suite map[string]func(*testing.T, Place), connectionTests []string) {
	if !testkit.RaceEnabled {
		t.Run("bubble", func(t *testing.T) {
			for name, test := range suite {
				t.Run(name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { test(t, Place{Addresses: BubbleAddress, Dial: InBubble(t).Dial}) })
				})
			}
		})
	}
	for _, kind := range Kinds() {
		if kind.Known && len(connectionTests) == 0 {
			continue
		}
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			place := kind.Start(t)
			names := slices.Collect(maps.Keys(suite))
			if kind.Known {
				names = connectionTests
			}
			for _, name := range names {
				t.Run(name, func(t *testing.T) { suite[name](t, place) })
			}
		})
	}
}
