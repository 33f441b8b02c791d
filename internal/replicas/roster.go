// Package replicas lists the live replicas with their versions and start times.
//
// Package pool decides by heartbeats which replicas are alive. In this package, each replica
// stores its description in Redis, and reads those of the others. Package status shows the list.
//
// # Keys
//
// The prefix of the following key is "captcha":
//
//	captcha:{roster}:REPLICA  string  the description of a replica as JSON
package replicas

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"poold/internal/redisdb"
)

const (
	// checkEvery is the interval at which a Roster stores its description and reads those of the live replicas.
	checkEvery = 2 * time.Second
	// keptFor is how long Redis keeps the description of a replica that has ended.
	keptFor = time.Minute
	// A replica counts as gone if it was not alive for goneAfter. After an outage of Redis, all
	// replicas send their next heartbeats within this time.
	goneAfter = 10 * time.Second
)

// Replica describes one process.
type Replica struct {
	ID      string    `json:"-"`
	Version string    `json:"version"` // "" = unknown
	Started time.Time `json:"started"`
}

// Roster lists the live replicas. It is safe for concurrent use.
type Roster struct {
	db   *redisdb.DB
	self Replica
	live func() []string
	gone func(id string)

	mu   sync.Mutex
	list []Replica // replaced as a whole

	// Only Run uses these fields.
	known map[string]Replica
	seen  map[string]time.Time // when each replica was last alive
}

// New returns a Roster for a replica with this version and start time. The function `live` returns
// the ids of the live replicas; nil = unknown. The Roster calls the function `gone` when another
// replica is no longer alive. Neither function may block.
func New(db *redisdb.DB, version string, started time.Time, live func() []string, gone func(id string)) *Roster {
	return &Roster{
		db: db, self: Replica{ID: db.Replica, Version: version, Started: started.UTC().Truncate(time.Millisecond)}, live: live, gone: gone,
		known: map[string]Replica{}, seen: map[string]time.Time{},
	}
}

// List returns the live replicas, the oldest first; nil = they are unknown. It does not block.
func (r *Roster) List() []Replica {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.list
}

// Run keeps the list up to date until ctx ends.
func (r *Roster) Run(ctx context.Context) error {
	ticker := time.NewTicker(checkEvery)
	defer ticker.Stop()
	for {
		r.check(ctx, time.Now())
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// check updates the list of live replicas.
func (r *Roster) check(ctx context.Context, at time.Time) {
	live := r.live()
	if r.db.Up() {
		r.exchange(ctx, live)
	}
	var list []Replica
	for _, id := range live {
		r.seen[id] = at
		replica := r.known[id]
		replica.ID = id
		list = append(list, replica)
	}
	slices.SortFunc(list, func(a, b Replica) int { return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.ID, b.ID)) })
	r.mu.Lock()
	r.list = list
	r.mu.Unlock()
	for id, seen := range r.seen {
		if len(live) > 0 && at.Sub(seen) >= goneAfter {
			delete(r.seen, id)
			delete(r.known, id)
			r.gone(id)
		}
	}
}

// exchange writes the description of this replica, and reads those of the live replicas.
func (r *Roster) exchange(ctx context.Context, live []string) {
	text, _ := json.Marshal(r.self) // texts and times can always be encoded
	key := func(id string) string { return r.db.Prefix + ":{roster}:" + id }
	keys := []string{key(r.self.ID)}
	for _, id := range live {
		keys = append(keys, key(id))
	}
	pipe := r.db.Slow.Pipeline()
	pipe.Set(ctx, keys[0], text, keptFor)
	found := pipe.MGet(ctx, keys...)
	if _, err := pipe.Exec(ctx); err != nil {
		return // the last known descriptions stay
	}
	for i, id := range live {
		var described Replica
		if text, is := found.Val()[i+1].(string); is && json.Unmarshal([]byte(text), &described) == nil {
			r.known[id] = described
		}
	}
}
