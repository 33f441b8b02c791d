package compatapi

import (
	"sync"
	"time"
)

// mostLines limits the remembered lines of one caller.
const mostLines = 100

// lines limits repeated log lines. The callers are those of the configuration file. The zero value
// is empty.
type lines struct {
	mu sync.Mutex
	of map[string]map[string]*line // by Caller.StableName and text
}

// line is a logged line.
type line struct {
	until   time.Time // equal lines are left out until then
	repeats int       // number of lines that were left out
}

// due reports whether a line about a caller must be logged, because no equal line was logged in the
// last period. The result repeats is the number of equal lines that were left out before. A caller
// with mostLines different lines gets no further ones until one of them is out of date.
func (l *lines) due(caller, text string, period time.Duration, at time.Time) (repeats int, due bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = map[string]map[string]*line{}
	}
	known := l.of[caller]
	if known == nil {
		known = map[string]*line{}
		l.of[caller] = known
	}
	last := known[text]
	if last != nil && at.Before(last.until) {
		last.repeats++
		return 0, false
	}
	if last != nil {
		repeats = last.repeats
	} else if len(known) >= mostLines && !dropOutdated(known, at) {
		return 0, false
	}
	known[text] = &line{until: at.Add(period)}
	return repeats, true
}

// dropOutdated removes the lines whose period is over, and reports whether it removed any.
func dropOutdated(known map[string]*line, at time.Time) bool {
	before := len(known)
	for text, line := range known {
		if !at.Before(line.until) {
			delete(known, text)
		}
	}
	return len(known) < before
}
