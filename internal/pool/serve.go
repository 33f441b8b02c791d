package pool

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// serve makes script calls for as long as somebody is in the line.
func (l *line) serve() {
	sleep := time.NewTimer(0)
	defer sleep.Stop()
	for {
		b, rest, ok := l.next(time.Now())
		switch {
		case !ok:
			return
		case b != nil:
			l.call(b)
		default:
			sleep.Reset(rest)
			select {
			case <-l.bell:
			case <-sleep.C:
			case <-l.tokens.closing:
				l.sendAway()
			}
		}
	}
}

// next puts together who goes into the next call. Without anybody it tells how
// long to sleep until the waiting callers poll; ok is false where nobody is left.
func (l *line) next(at time.Time) (b *batch, rest time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.round) == 0 && len(l.parked) > 0 && (l.awake || at.Sub(l.began) >= pollEvery) {
		l.awake, l.began = false, at
		l.round = append(l.round, l.parked...)
	}
	b = &batch{leaving: l.leaving}
	l.leaving = nil
	l.round = b.admit(l.round)
	l.fresh = b.admit(l.fresh)
	switch {
	case len(b.plain)+len(b.askers)+len(b.leaving) > 0:
		return b, 0, true
	case len(l.parked) > 0:
		return nil, max(0, pollEvery-at.Sub(l.began)), true
	}
	l.serving = false
	return nil, 0, false
}

// call runs the script until it is known what it did. Where Redis refuses it, it is
// over. Where answers are lost for a second the callers are told so; the call itself
// is repeated under its number until Redis answers, and what it handed out then
// goes back into the stock.
func (l *line) call(b *batch) {
	keys, args := l.encode(b, l.tokens.calls.Add(1))
	began, lost := time.Now(), false
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		limit := callTimeout
		if !b.failed {
			limit -= time.Since(began)
		}
		reply, err := l.tokens.takeOnce(limit, keys, args)
		if err == nil {
			l.settle(b, reply)
			return
		}
		if isOver(err, l.tokens.scripts.take, lost) {
			l.refuse(b, l.tokens.explain(context.Background(), err, keys))
			return
		}
		lost = true
		if wait >= 80*time.Millisecond || time.Since(began)+wait >= callTimeout {
			l.fail(b, err)
		}
		if time.Since(began) > receiptLife {
			l.settle(b, nil)
			return
		}
		select {
		case <-time.After(wait):
		case <-l.tokens.closing:
			l.settle(b, nil)
			return
		}
	}
}

// isOver reports whether an error is Redis' own answer to a take, so that it is
// known that nothing was handed out. An error that the script raised names it; it
// had looked for the receipt of an earlier try by then. Others were answered
// without running it, which says nothing of an earlier try whose answer was lost.
func isOver(err error, script *redis.Script, lost bool) bool {
	var answer redis.Error
	return errors.As(err, &answer) && (!lost || strings.Contains(answer.Error(), script.Hash()))
}

// refuse ends a call that Redis refused. Its tickets are forgotten like those of a
// replica that is gone.
func (l *line) refuse(b *batch, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stuck = false
	if !l.refused {
		l.refused = true
		l.tokens.log.Warn("redis refuses to hand out tokens", "err", err)
	}
	for _, a := range slices.Concat(b.plain, b.askers) {
		a.asked = false
		l.finishLocked(a, answer{err: down(err)})
		l.unparkLocked(a)
	}
}

// fail tells the callers of a call, and those behind it, that Redis is away.
func (l *line) fail(b *batch, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b.failed {
		return
	}
	b.failed, l.stuck = true, true
	l.tokens.log.Warn("a take has no answer yet; its tokens will be put back", "err", err)
	down := answer{err: down(err)}
	for _, group := range [][]*asker{b.plain, b.askers, l.fresh, l.parked} {
		for _, a := range group {
			a.parked = false
			l.finishLocked(a, down)
			if a.arrival != "" && !a.asked {
				l.leaveLocked(a)
			}
		}
	}
	l.fresh, l.parked, l.round = nil, nil, nil
}

// settle gives the answers of a call to its callers; nil stands for a call whose
// outcome will never be known.
func (l *line) settle(b *batch, reply []string) {
	results, err := l.read(b, reply)
	if err != nil && reply != nil {
		l.tokens.log.Error("a take was answered with something unreadable", "err", err)
	}
	var orphans []Token
	l.mu.Lock()
	if l.refused {
		l.refused = false
		l.tokens.log.Info("redis lets tokens be handed out again")
	}
	l.stuck = false
	for i, a := range append(b.askers, b.plain...) {
		result := answer{err: down(err)}
		if err == nil {
			result = results[i]
		}
		a.asked, a.held = false, result.held
		switch {
		case errors.Is(result.err, errParked) && !a.done && !l.tokens.draining.Load():
			if !a.parked {
				a.parked = true
				l.parked = append(l.parked, a)
			}
			continue
		case errors.Is(result.err, errParked):
			l.finishLocked(a, answer{err: ErrClosed})
			l.leaveLocked(a)
		case a.done && result.err == nil:
			orphans = append(orphans, result.token)
		default:
			l.finishLocked(a, result)
		}
		l.unparkLocked(a)
	}
	l.mu.Unlock()
	// Apart, so that nobody in the line has to wait for it.
	if err := l.giveBackLater(orphans...); err != nil {
		l.tokens.log.Warn("tokens whose callers hung up could not be put back", "err", err)
	}
	l.tokens.news.changed(l.id)
}

// once is a command that go-redis does not send again by itself.
type once struct{ *redis.Cmd }

// NoRetry is what go-redis asks before it does.
func (once) NoRetry() bool { return true }

// takeOnce runs take.lua one time, so that the caller learns of each lost answer.
// Where Redis does not know the script, its text is sent along.
func (s *Tokens) takeOnce(limit time.Duration, keys []string, args []any) ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	command := make([]any, 0, 3+len(keys)+len(args))
	command = append(command, "evalsha", s.scripts.take.Hash(), len(keys))
	for _, key := range keys {
		command = append(command, key)
	}
	command = append(command, args...)
	call := once{redis.NewCmd(ctx, command...)}
	if err := s.hot.Process(ctx, call); redis.HasErrorPrefix(err, "NOSCRIPT") {
		command[0], command[1] = "eval", s.scripts.takeText
		call = once{redis.NewCmd(ctx, command...)}
		_ = s.hot.Process(ctx, call) // the call has its error
	}
	return call.StringSlice()
}
