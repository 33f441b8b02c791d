package compat

import (
	"reflect"
	"slices"
	"sync"
	"time"

	"poold/internal/captcha"
)

const (
	// mostNearMisses is how many kinds of near misses are kept of a target, the latest.
	mostNearMisses = 5
	// mostNearTargets is of how many identities any are kept.
	mostNearTargets = 10_000
)

// NearMiss is submits that differ from a target in the same fields.
type NearMiss struct {
	Fields []string // as pools.yaml names them
	Count  int64
	Last   time.Time
}

// NearMisses are those of all targets, as this replica saw them since its start. It is safe
// for concurrent use.
type NearMisses struct {
	mu sync.Mutex
	of map[captcha.ID][]NearMiss // of a target's identity, the latest first
}

// Note notes a submit that differs from a target of an identity. first: it is the first
// one with these fields.
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

// Of tells those of a target of an identity, the latest first. Of nil there are none.
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
