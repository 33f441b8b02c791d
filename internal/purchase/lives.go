package purchase

import (
	"maps"
	"sync"
	"time"

	"poold/internal/captcha"
)

const (
	// uselessAfter is when a dead letter is of no use where nobody knows how long its
	// token lives.
	uselessAfter = 24 * time.Hour
	// lifeKept is how long the life of a token is remembered after its end, and how
	// often what is older is looked for. It is longer than most orders take. Not a
	// day: each image that somebody asks for is an identity of its own, and a million
	// of them would stay in memory. Who asks later is told uselessAfter, so that a
	// callback that comes so late is kept longer than it need be, never shorter.
	lifeKept = time.Hour
)

// lives is how long tokens of each identity live, as their last order had it. It is
// safe for concurrent use.
type lives struct {
	mu    sync.Mutex
	of    map[captcha.ID]life
	sweep time.Time // when old ones are forgotten next
}

type life struct {
	lasts time.Duration
	known time.Time // when the last order told it
}

func newLives() *lives { return &lives{of: map[captcha.ID]life{}} }

// set notes how long a token lives, and forgets those of which no token can be alive.
func (l *lives) set(id captcha.ID, lasts time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.of[id] = life{lasts, now}
	if now.Before(l.sweep) {
		return
	}
	l.sweep = now.Add(lifeKept)
	maps.DeleteFunc(l.of, func(_ captcha.ID, known life) bool { return now.Sub(known.known) > known.lasts+lifeKept })
}

// get is how long a token of an identity can be of use.
func (l *lives) get(id captcha.ID) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known, ok := l.of[id]; ok && known.lasts > 0 {
		return known.lasts
	}
	return uselessAfter
}
