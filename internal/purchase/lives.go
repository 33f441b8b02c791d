package purchase

import (
	"maps"
	"sync"
	"time"

	"poold/internal/captcha"
)

const (
	// uselessAfter is how long a dead letter is kept if the lifetime of its token is unknown.
	uselessAfter = 24 * time.Hour
	// lifeKept is how long the token lifetime of an identity is remembered after the identity's last
	// token expired. Most orders end sooner. A longer time would cost memory, because each picture is
	// a new identity.
	lifeKept = time.Hour
)

// For each identity, the type lifetimes stores the token lifetime of the last order. It is safe for
// concurrent use.
type lifetimes struct {
	mu    sync.Mutex
	of    map[captcha.ID]life
	sweep time.Time // when old entries are removed next
}

type life struct {
	lifetime time.Duration
	at       time.Time // time of the last order
}

func newLifetimes() *lifetimes { return &lifetimes{of: map[captcha.ID]life{}} }

// setLife records the lifetime of an identity's tokens. It also removes the entries of identities
// whose last token expired more than lifeKept ago.
func (l *lifetimes) setLife(id captcha.ID, lifetime time.Duration) {
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
