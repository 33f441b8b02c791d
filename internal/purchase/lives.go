package purchase

import (
	"maps"
	"sync"
	"time"

	"poold/internal/captcha"
)

const (
	// A dead letter expires after uselessAfter if the lifetime of its token is unknown.
	uselessAfter = 24 * time.Hour
	// lifeKept is how long the token lifetime of an identity is remembered after the identity's last
	// token expired. It exceeds the duration of most orders. It is short because each picture is a new
	// identity.
	lifeKept = time.Hour
)

// lifetimes has the token lifetime of each identity, from the identity's last order. It is
// safe for concurrent use.
type lifetimes struct {
	mu    sync.Mutex
	of    map[captcha.ID]life
	sweep time.Time // time at which the method set next removes old entries
}

type life struct {
	lifetime time.Duration
	at       time.Time // time of the last order
}

func newLifetimes() *lifetimes { return &lifetimes{of: map[captcha.ID]life{}} }

// set records the lifetime of an identity's tokens. It also removes the entries of
// identities whose last token expired long ago.
func (l *lifetimes) set(id captcha.ID, lifetime time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.of[id] = life{lifetime, now}
	if now.Before(l.sweep) {
		return
	}
	l.sweep = now.Add(lifeKept)
	maps.DeleteFunc(l.of, func(_ captcha.ID, known life) bool { return now.Sub(known.at) > known.lifetime+lifeKept })
}

// get returns the lifetime of an identity's tokens, or uselessAfter if it is unknown.
func (l *lifetimes) get(id captcha.ID) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known, ok := l.of[id]; ok && known.lifetime > 0 {
		return known.lifetime
	}
	return uselessAfter
}
