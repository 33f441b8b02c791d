package purchase

import (
	"maps"
	"sync"
	"time"

	"poold/internal/captcha"
)

const (
	// uselessAfter is when a dead letter expires if the lifetime of its token is unknown.
	uselessAfter = 24 * time.Hour
	// lifeKept is how long the lifetime of an identity's tokens is remembered after they expired.
	// It exceeds the time of most orders. It is short because each picture is a new identity.
	lifeKept = time.Hour
)

// lifetimes has the lifetime of each identity's tokens, as its last order had it. It is safe for
// concurrent use.
type lifetimes struct {
	mu    sync.Mutex
	of    map[captcha.ID]life
	sweep time.Time // when set next removes old entries
}

type life struct {
	lifetime time.Duration
	at       time.Time // of the last order
}

func newLifetimes() *lifetimes { return &lifetimes{of: map[captcha.ID]life{}} }

// set records a lifetime, and removes those of identities without a living token.
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

// get returns the longest time that a token of an identity is useful.
func (l *lifetimes) get(id captcha.ID) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known, ok := l.of[id]; ok && known.lifetime > 0 {
		return known.lifetime
	}
	return uselessAfter
}
