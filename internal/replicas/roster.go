// Package replicas lists the live replicas with their versions and start times.
//
// Package pool decides by heartbeats which replicas are alive. In this package, each replica
// stores its description in Redis, and reads the descriptions of the other replicas when a new id
// appears. Package status shows the list.
//
// # Keys
//
// The prefix of the following key is "captcha":
//
//	captcha:roster  hash  replica -> its description as JSON
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
	// checkEvery is the interval at which a Roster checks which replicas are alive.
	checkEvery = time.Second
	// A replica stores its description again at intervals of describeEvery. A description that is
	// older than keptFor is removed.
	describeEvery = 10 * time.Minute
	keptFor       = time.Hour
	// readEvery is the shortest interval between two reads of the descriptions.
	readEvery = 5 * time.Second
	// A replica counts as gone if it was not alive for goneAfter. After an outage of Redis, all
	// replicas send their next heartbeats within this time.
	goneAfter = 10 * time.Second
)

// Replica describes one process.
type Replica struct {
	ID      string    `json:"-"`
	Version string    `json:"version"` // "" = unknown; an old version of poold stores no description
	Started time.Time `json:"started"`
	Written time.Time `json:"written"` // when the description was written
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
	described time.Time // last successful write
	read      time.Time // last read
	known     map[string]Replica
	seen      map[string]time.Time // when each replica was last alive
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
			_ = r.db.Slow.HDel(context.WithoutCancel(ctx), r.key(), r.self.ID).Err()
			return nil
		case <-ticker.C:
		}
	}
}

func (r *Roster) key() string { return r.db.Prefix + ":roster" }

// check stores the description of this replica if this is due, and updates the list of live
// replicas.
func (r *Roster) check(ctx context.Context, at time.Time) {
	if at.Sub(r.described) >= describeEvery && r.db.Up() && r.describe(ctx, at) == nil {
		r.described = at
	}
	live := r.live()
	unknown := slices.ContainsFunc(live, func(id string) bool { return r.known[id].Version == "" })
	if unknown && at.Sub(r.read) >= readEvery {
		r.readAll(ctx, at)
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

// describe writes the description of this replica.
func (r *Roster) describe(ctx context.Context, at time.Time) error {
	r.self.Written = at.UTC().Truncate(time.Millisecond)
	text, err := json.Marshal(r.self)
	if err != nil {
		return err
	}
	pipe := r.db.Slow.Pipeline()
	pipe.HSet(ctx, r.key(), r.self.ID, text)
	pipe.PExpire(ctx, r.key(), keptFor)
	_, err = pipe.Exec(ctx)
	return err
}

// readAll reads the descriptions of all replicas and removes old ones.
func (r *Roster) readAll(ctx context.Context, at time.Time) {
	r.read = at
	all, err := r.db.Slow.HGetAll(ctx, r.key()).Result()
	if err != nil {
		return
	}
	for id, text := range all {
		var found Replica
		if json.Unmarshal([]byte(text), &found) != nil || at.Sub(found.Written) > keptFor {
			_ = r.db.Slow.HDel(ctx, r.key(), id).Err()
			continue
		}
		r.known[id] = found
	}
}
