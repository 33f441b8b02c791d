package compat

import (
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"poold/internal/captcha"
)

const (
	// mostNearMisses is the maximum number of near misses that are kept for a target. The oldest near
	// miss is dropped first.
	mostNearMisses = 5
	// mostNearTargets is the maximum number of targets whose near misses are kept.
	mostNearTargets = 10_000
)

// NearMiss counts the submissions that differ from a target in the same fields.
type NearMiss struct {
	Fields []string // names of the fields in pools.yaml
	Count  int64
	Last   time.Time
}

// NearMisses contains the near misses of all targets at this replica since its start. The type
// NearMisses is safe for concurrent use.
type NearMisses struct {
	mu sync.Mutex
	of map[captcha.ID][]NearMiss // key: the identity of a target; value: its near misses, the latest first
}

// Note counts a submission that differs from a target in these fields. The result is true for the
// first submission with these differences.
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

// Of returns the near misses of a target, the latest first. For a nil receiver, Of returns nil.
func (n *NearMisses) Of(target captcha.ID) []NearMiss {
	if n == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.of[target])
}

// Differences returns the names of the fields in which two identities differ. The result is nil if
// the identities are equal, or if more than one of the fields type, sitekey and pageurl differ.
func Differences(a, b captcha.Identity) (fields []string) {
	main := 0
	for _, differs := range []bool{a.Type != b.Type, a.Sitekey != b.Sitekey, a.Pageurl != b.Pageurl} {
		if differs {
			main++
		}
	}
	if main > 1 {
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

// IsNearMiss reports whether two identities differ, but have the same type, site key and page.
// Spellings of one page count as the same page.
func IsNearMiss(a, b captcha.Identity) bool {
	return a != b && a.Type == b.Type && a.Sitekey == b.Sitekey && (a.Pageurl == b.Pageurl || place(a.Pageurl) == place(b.Pageurl))
}

// place returns the host and path of a page in lower case, without "www." and without a slash at
// the end. Scheme, query and fragment are left out.
func place(page string) string {
	u, err := url.Parse(page)
	if err != nil {
		return page
	}
	return strings.ToLower(strings.TrimPrefix(u.Hostname(), "www.") + strings.TrimRight(u.Path, "/"))
}
