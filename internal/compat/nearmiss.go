package compat

import (
	"reflect"
	"slices"
	"sync"
	"time"

	"poold/internal/captcha"
)

const (
	// mostNearMisses limits the near misses of a target; the latest are kept.
	mostNearMisses = 5
	// mostNearTargets limits the targets with near misses.
	mostNearTargets = 10_000
)

// NearMiss counts submits that differ from a target in the same fields.
type NearMiss struct {
	Fields []string // as pools.yaml names them
	Count  int64
	Last   time.Time
}

// NearMisses are the near misses of all targets at this replica since its start. It is safe for
// concurrent use.
type NearMisses struct {
	mu sync.Mutex
	of map[captcha.ID][]NearMiss // by a target's identity, the latest first
}

// Note counts a submit that differs from a target in these fields, and reports whether it is the first
// one.
func (n *NearMisses) Note(target captcha.ID, fields []string, at time.Time) (first bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.of == nil {
		n.of = map[captcha.ID][]NearMiss{}
	}
	list, known := n.of[target]
	if !known && len(n.of) >= mostNearTargets {
		return false
	}
	miss := NearMiss{Fields: fields}
	i := slices.IndexFunc(list, func(m NearMiss) bool { return slices.Equal(m.Fields, fields) })
	if i >= 0 {
		miss = list[i]
		list = slices.Delete(list, i, i+1)
	}
	miss.Count++
	miss.Last = at
	list = slices.Insert(list, 0, miss)
	n.of[target] = list[:min(len(list), mostNearMisses)]
	return i < 0
}

// Of lists the near misses of a target, the latest first; nil for a nil receiver.
func (n *NearMisses) Of(target captcha.ID) []NearMiss {
	if n == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.of[target])
}

// Differences returns the keys of the fields in which two identities of one type, site key
// and page differ. It returns nil if those differ or nothing does.
func Differences(a, b captcha.Identity) (fields []string) {
	if a.Type != b.Type || a.Sitekey != b.Sitekey || a.Pageurl != b.Pageurl {
		return nil
	}
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range x.NumField() {
		key, named := x.Type().Field(i).Tag.Lookup("key")
		if named && !x.Field(i).Equal(y.Field(i)) {
			fields = append(fields, key)
		}
	}
	return fields
}
