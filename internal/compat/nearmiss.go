package compat

import (
	"fmt"
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

// Differences names the fields in which two identities of one type, sitekey and page
// differ; nil where those do, or nothing does.
func Differences(a, b captcha.Identity) (fields []string) {
	if a.Type != b.Type || a.Sitekey != b.Sitekey || a.Pageurl != b.Pageurl {
		return nil
	}
	for _, f := range []struct{ name, a, b string }{
		{"invisible", fmt.Sprint(a.Invisible), fmt.Sprint(b.Invisible)}, {"enterprise", fmt.Sprint(a.Enterprise), fmt.Sprint(b.Enterprise)},
		{"action", a.Action, b.Action}, {"min_score", fmt.Sprint(a.MinScore), fmt.Sprint(b.MinScore)},
		{"data", a.Data, b.Data}, {"user_agent", a.UserAgent, b.UserAgent},
		{"proxy", a.Proxy.Reveal(), b.Proxy.Reveal()}, {"proxy_type", a.ProxyType, b.ProxyType},
		{"data_s", a.DataS, b.DataS}, {"rqdata", a.RQData, b.RQData},
	} {
		if f.a != f.b {
			fields = append(fields, f.name)
		}
	}
	return fields
}
