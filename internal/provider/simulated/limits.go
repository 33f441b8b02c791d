package simulated

import (
	"crypto/subtle"
	"poold/internal/provider/wire"
	"time"
)

// The abuse limits of the trade.
const (
	pollsAllowed   = 1200 // res.php calls, whatever was submitted
	pollsPerSubmit = 20   // more of them for each submit
	wrongKeys      = 5
	turnsAllowed   = 60 // in.php calls
	turnsWithin    = 3 * time.Second

	codeBanned       = "ERROR: 1004"
	codeTooManyPolls = "ERROR: 1005"
)

// limits counts what may lead to a ban. Guarded by books.mu.
type limits struct {
	opts *Options

	ban      string // the code in force; "" = none
	until    time.Time
	polls    int // res.php calls
	submits  int // tasks sold
	badKeys  int
	turns    [turnsAllowed]time.Time // the last in.php calls, a ring
	nextTurn int                     // the oldest of them
}

func newLimits(opts *Options) limits { return limits{opts: opts} }

// admit checks the ban and the key, in this order; "" lets the call in.
func (l *limits) admit(key string, at time.Time) string {
	if l.ban != "" {
		if at.Before(l.until) {
			return l.ban
		}
		*l = newLimits(l.opts)
	}
	code := ""
	switch {
	case key == "":
		code = wire.CodeNoKey
	case l.opts.Key != "" && subtle.ConstantTimeCompare([]byte(key), []byte(l.opts.Key)) != 1:
		code = wire.CodeUnknownKey
	default:
		return ""
	}
	if l.badKeys++; l.opts.Bans.Keys && l.badKeys >= wrongKeys {
		l.block(codeBanned, at)
	}
	return code
}

// polled records one res.php call. The call that exceeds the limit is the first to be banned.
func (l *limits) polled(at time.Time) {
	l.polls++
	if l.opts.Bans.Polls && l.ban == "" && l.polls > pollsPerSubmit*l.submits+pollsAllowed {
		l.block(codeTooManyPolls, at)
	}
}

// block bans every call for a while.
func (l *limits) block(code string, at time.Time) {
	l.ban, l.until = code, at.Add(l.opts.Bans.For)
}

// tooManyTurns records one in.php call and reports whether it exceeds the limit. Refused calls
// count too.
func (l *limits) tooManyTurns(at time.Time) bool {
	if !l.opts.Bans.Turns {
		return false
	}
	oldest := l.turns[l.nextTurn]
	l.turns[l.nextTurn] = at
	l.nextTurn = (l.nextTurn + 1) % turnsAllowed
	return !oldest.IsZero() && at.Sub(oldest) < turnsWithin
}
