package purchase

import (
	"context"
	"slices"
	"strings"
	"time"

	"poold/internal/pool"
)

// strandedOrder is a paid task that nobody can be asked about.
type strandedOrder struct {
	seen  time.Time
	until time.Time // it counts for so long
}

// Stranded are paid tasks under way that nobody can be asked about: no provider of
// the list has the account that they were placed at, nor their provider's name.
type Stranded struct {
	Provider string // the name under which they were placed
	Orders   int
	Until    time.Time // the last of them counts for so long
}

// list lists the stranded orders by provider.
func (rc *recovery) list() []Stranded {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	byName := map[string]Stranded{}
	for p, o := range rc.stranded {
		s := byName[p.provider]
		s.Provider, s.Orders = p.provider, s.Orders+1
		if o.until.After(s.Until) {
			s.Until = o.until
		}
		byName[p.provider] = s
	}
	list := make([]Stranded, 0, len(byName))
	for _, s := range byName {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b Stranded) int { return strings.Compare(a.Provider, b.Provider) })
	return list
}

// strand leaves the orders of a name that nobody can be asked about to replicas
// that may know better, and tells of those that are new.
func (rc *recovery) strand(ctx context.Context, name string, orders []pool.Record) {
	now, grew := time.Now(), false
	refs := make([]pool.Ref, 0, len(orders))
	rc.mu.Lock()
	for _, r := range orders {
		p := place{name, r.Ref}
		_, known := rc.stranded[p]
		grew = grew || !known
		rc.stranded[p] = strandedOrder{seen: now, until: r.Until}
		refs = append(refs, r.Ref)
	}
	for p, o := range rc.stranded {
		if p.provider == name && (now.Sub(o.seen) > strandedFor || !now.Before(o.until)) {
			delete(rc.stranded, p)
		}
	}
	rc.mu.Unlock()
	if len(refs) > 0 {
		rc.letGo(ctx, refs...)
	}
	if !grew {
		return
	}
	for _, s := range rc.list() {
		if s.Provider == name {
			rc.log.Error("paid tasks cannot be collected: no provider of the file has the account that they were placed at; they count until then, or until it is listed again",
				"provider", name, "orders", s.Orders, "until", s.Until.UTC().Truncate(time.Second))
		}
	}
}
