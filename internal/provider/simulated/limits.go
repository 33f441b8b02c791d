package simulated

import (
	"crypto/subtle"
	"time"
)

// The abuse limits of the trade.
const (
	pollsAllowed   = 1200 // res.php calls, whatever was submitted
	pollsPerSubmit = 20   // and so many more for each submit
	wrongKeys      = 5
	turnsAllowed   = 60 // in.php calls
	turnsWithin    = 3 * time.Second

	codeIPBlocked    = "ERROR: 1004"
	codeTooManyPolls = "ERROR: 1005"
)

// limits counts what may lead to a ban. Guarded by Service.mu.
type limits struct {
	ban      string // the code in force; "" = none
	until    time.Time
	polls    int // res.php calls
	submits  int // tasks sold
	badKeys  int
	turns    [turnsAllowed]time.Time // the last in.php calls, a ring
	nextTurn int                     // the oldest of them
}

// admitLocked checks the ban and the key, in this order; "" lets the call in.
func (s *Service) admitLocked(key string, at time.Time) string {
	l := &s.limits
	if l.ban != "" {
		if at.Before(l.until) {
			return l.ban
		}
		*l = limits{}
	}
	code := ""
	switch {
	case key == "":
		code = codeNoKey
	case s.opts.Key != "" && subtle.ConstantTimeCompare([]byte(key), []byte(s.opts.Key)) != 1:
		code = codeUnknownKey
	default:
		return ""
	}
	if l.badKeys++; s.opts.Bans.Keys && l.badKeys >= wrongKeys {
		s.banLocked(codeIPBlocked, at)
	}
	return code
}

// countPoll records one res.php call. The call that goes too far is the first
// one that meets the ban.
func (s *Service) countPoll(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &s.limits
	l.polls++
	if s.opts.Bans.Polls && l.ban == "" && l.polls > pollsPerSubmit*l.submits+pollsAllowed {
		s.banLocked(codeTooManyPolls, at)
	}
}

func (s *Service) banLocked(code string, at time.Time) {
	s.limits.ban, s.limits.until = code, at.Add(s.opts.Bans.For)
}

// tooManyTurnsLocked records one in.php call and reports whether it is one too
// many. Refused calls count too: who hammers on is not let in again.
func (s *Service) tooManyTurnsLocked(at time.Time) bool {
	if !s.opts.Bans.Turns {
		return false
	}
	l := &s.limits
	oldest := l.turns[l.nextTurn]
	l.turns[l.nextTurn] = at
	l.nextTurn = (l.nextTurn + 1) % turnsAllowed
	return !oldest.IsZero() && at.Sub(oldest) < turnsWithin
}
