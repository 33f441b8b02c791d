// Package replicas names the replicas of an installation, and notices those that are gone. The name of a replica
// contains its version, the time of its start and its address. Package pool decides by beats which replicas are alive.
package replicas

import (
	"cmp"
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"time"
)

const (
	// checkEvery is the interval at which Watch looks at the live replicas.
	checkEvery = 2 * time.Second
	// A replica counts as gone if it was not alive for goneAfter. After an outage of Redis, all
	// replicas send their next beats within this time.
	goneAfter = 10 * time.Second
	// layout is the format of the start time in a replica's name.
	layout = "20060102T150405.000Z"
)

// Replica describes one process.
type Replica struct {
	ID      string
	Version string    // "" = unknown
	Started time.Time // zero = unknown
	Address string    // HOST:PORT; "" = unknown
}

// New describes this process, without its Address.
func New(version string) Replica {
	return Replica{ID: rand.Text()[:8], Version: strings.ReplaceAll(version, "@", "_"), Started: time.Now()}
}

// Name returns the name of a replica: ID@VERSION@START@ADDRESS.
func (r Replica) Name() string {
	return r.ID + "@" + r.Version + "@" + r.Started.UTC().Format(layout) + "@" + r.Address
}

// String names the replica for people.
func (r Replica) String() string { return r.ID + strings.TrimSuffix(" ("+r.Address+")", " ()") }

// Describe parses the name of a replica.
func Describe(name string) (r Replica) {
	r.ID, name, _ = strings.Cut(name, "@")
	r.Version, name, _ = strings.Cut(name, "@")
	start, address, _ := strings.Cut(name, "@")
	r.Address = address
	r.Started, _ = time.Parse(layout, start) // zero for another program's name
	return r
}

// List describes the replicas with the given names, the oldest first; nil = they are unknown.
func List(names []string) (list []Replica) {
	for _, name := range names {
		list = append(list, Describe(name))
	}
	slices.SortFunc(list, func(a, b Replica) int { return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.ID, b.ID)) })
	return list
}

// Watch calls gone with each replica that is no longer alive, until ctx ends. The function live returns the
// names of the live replicas; nil = unknown. Neither function may block for longer than a call to Redis.
func Watch(ctx context.Context, live func() []string, gone func(Replica)) error {
	ticker := time.NewTicker(checkEvery)
	defer ticker.Stop()
	for seen := map[string]time.Time{}; ; { // when each one was last alive
		names := live()
		for _, name := range names {
			seen[name] = time.Now()
		}
		for name, at := range seen {
			if len(names) > 0 && time.Since(at) >= goneAfter {
				delete(seen, name)
				gone(Describe(name))
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}
