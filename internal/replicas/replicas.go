// Package replicas names the replicas of an installation, and notices those that are gone. The name of a replica has
// its version and the time of its start, so that whoever sees a name knows them. Package pool decides by beats
// which replicas are alive.
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
	// layout is the form of the start in a name.
	layout = "20060102T150405.000Z"
)

// Replica describes one process.
type Replica struct {
	ID      string
	Version string    // "" = unknown
	Started time.Time // zero = unknown
}

// Name returns a new name for a replica: ID@VERSION@START.
func Name(version string, started time.Time) string {
	return rand.Text()[:8] + "@" + strings.ReplaceAll(version, "@", "_") + "@" + started.UTC().Format(layout)
}

// Describe returns what a name tells.
func Describe(name string) (r Replica) {
	r.ID, name, _ = strings.Cut(name, "@")
	version, start, _ := strings.Cut(name, "@")
	r.Version = version
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

// Watch calls gone with the ID of each replica that is no longer alive, until ctx ends. The function live returns the
// names of the live replicas; nil = unknown. Neither function may block.
func Watch(ctx context.Context, live func() []string, gone func(id string)) error {
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
				gone(Describe(name).ID)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}
