package pool

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"poold/internal/redisdb"

	"github.com/redis/go-redis/v9"
)

// serve is the loop of a queue. The loop calls take.lua until the queue is empty.
func (q *takeQueue) serve() {
	sleep := time.NewTimer(0)
	defer sleep.Stop()
	for {
		c, pause, ok := q.next(time.Now())
		switch {
		case !ok:
			return
		case c != nil:
			q.call(c)
		default:
			sleep.Reset(pause)
			select {
			case <-q.bell:
			case <-sleep.C:
			case <-q.tokens.closing:
				q.endWaits()
			}
		}
	}
}

// next collects the callers of the next call. If no call is needed, c is nil and pause
// is the time until the next poll for the pending callers. If the queue is empty, ok is false.
func (q *takeQueue) next(at time.Time) (c *takeCall, pause time.Duration, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.round) == 0 && len(q.parked) > 0 && (q.awake || at.Sub(q.began) >= pollEvery) {
		q.awake, q.began = false, at
		q.round = append(q.round, q.parked...)
	}
	c = &takeCall{departures: q.departures}
	q.departures = nil
	q.round = c.admit(q.round)
	q.newcomers = c.admit(q.newcomers)
	switch {
	case len(c.immediate)+len(c.waiters)+len(c.departures) > 0:
		return c, 0, true
	case len(q.parked) > 0:
		return nil, max(0, pollEvery-at.Sub(q.began)), true
	}
	q.serving, q.idleSince = false, at
	return nil, 0, false
}

// resendEvery is the longest pause before the next try of a call without a reply.
const resendEvery = 100 * time.Millisecond

// call retries take.lua until the outcome is known, or until Redis refuses the call.
// After a second without a reply the callers get redisdb.ErrDown, and the retries continue with the
// same call number. If a reply comes later, its tokens go back into the stock. A retry waits until the
// probe finds that Redis works, because each queue with a lost reply would dial otherwise.
func (q *takeQueue) call(c *takeCall) {
	keys, args := q.encode(c, q.tokens.calls.Add(1))
	began, lost := time.Now(), false
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, resendEvery) {
		limit := redisdb.CallTimeout
		if !c.failed {
			limit -= time.Since(began)
		}
		var reply []string
		var err error
		if lost {
			err = q.tokens.db.Away(context.Background(), string(q.id))
		}
		if err == nil {
			reply, err = q.tokens.takeOnce(limit, keys, args)
		}
		if err == nil {
			q.deliver(c, reply)
			return
		}
		if isOver(err, q.tokens.script("take"), lost) {
			q.refuse(c, err)
			return
		}
		lost = true
		if wait >= 80*time.Millisecond || time.Since(began)+wait >= redisdb.CallTimeout {
			q.fail(c, err)
		}
		if time.Since(began) > receiptLife {
			q.deliver(c, nil)
			return
		}
		select {
		case <-time.After(wait):
		case <-q.tokens.closing:
			q.deliver(c, nil)
			return
		}
	}
}

// isOver reports whether an error proves that a take handed out no token. The argument lost is true
// if an earlier try got no reply. If the error contains the script's hash, the script raised the
// error after it had checked the receipt of the earlier try. Any other error of Redis came before the
// script ran, so it proves nothing about the earlier try.
func isOver(err error, script *redisdb.Script, lost bool) bool {
	var answer redis.Error
	return errors.As(err, &answer) && (!lost || strings.Contains(answer.Error(), script.Hash()))
}

// refuse ends a call that Redis refused. The callers' tickets expire, like the tickets of a dead
// replica. If a cluster is moving keys or replacing a master, callers with a ticket stay in the queue.
func (q *takeQueue) refuse(c *takeCall, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stuck = false
	if !q.refused {
		q.refused = true
		q.tokens.log.Warn("redis refuses to hand out tokens", "identity", q.id, "err", err)
	}
	err = redisdb.Down(err)
	for _, w := range slices.Concat(c.immediate, c.waiters) {
		w.asked = false
		if w.parked && !w.done && q.tokens.db.Passing(err) {
			continue
		}
		q.finishLocked(w, answer{err: err})
		q.unparkLocked(w)
	}
}

// fail answers all callers of the call and of the queue with redisdb.ErrDown.
func (q *takeQueue) fail(c *takeCall, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if c.failed {
		return
	}
	c.failed, q.stuck = true, true
	q.tokens.log.Warn("no reply to a take yet; its tokens will be returned", "identity", q.id, "err", err)
	down := answer{err: redisdb.Down(err)}
	for _, group := range [][]*waiter{c.immediate, c.waiters, q.newcomers, q.parked} {
		for _, w := range group {
			w.parked = false
			q.finishLocked(w, down)
			if w.arrival != "" && !w.asked {
				q.departLocked(w)
			}
		}
	}
	q.newcomers, q.parked, q.round = nil, nil, nil
}

// deliver parses the reply to a call and answers the callers. A nil reply means that the outcome of
// the call stays unknown.
func (q *takeQueue) deliver(c *takeCall, reply []string) {
	answers, err := q.decode(c, reply)
	if err != nil && reply != nil {
		q.tokens.log.Error("unreadable reply to a take", "identity", q.id, "err", err)
	}
	callers := append(c.waiters, c.immediate...)
	var orphans []Token
	q.mu.Lock()
	if q.refused {
		q.refused = false
		q.tokens.log.Info("redis hands out tokens again", "identity", q.id)
	}
	q.stuck = false
	for i, w := range callers {
		got := answer{err: redisdb.Down(err)}
		if err == nil {
			got = answers[i]
		}
		w.asked, w.limited = false, got.limited
		switch {
		case errors.Is(got.err, errParked) && !w.done && !q.tokens.draining.Load():
			if !w.parked {
				w.parkLocked()
				q.parked = append(q.parked, w)
			}
			continue
		case errors.Is(got.err, errParked):
			q.closeLocked(w)
			q.departLocked(w)
		case w.done && got.err == nil:
			orphans = append(orphans, got.token)
		default:
			q.finishLocked(w, got)
		}
		q.unparkLocked(w)
	}
	q.mu.Unlock()
	for _, token := range orphans {
		q.tokens.returnToken(token)
	}
	q.tokens.notify.changed(q.id)
}

// sentOnce is a command that go-redis does not retry.
type sentOnce struct{ *redis.Cmd }

// NoRetry returns true, so that go-redis does not retry the command.
func (sentOnce) NoRetry() bool { return true }

// takeOnce calls take.lua without go-redis' retries, so that each lost reply is an error. If Redis
// lacks the script, takeOnce sends the script's text.
func (s *Tokens) takeOnce(limit time.Duration, keys []string, args []any) ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	command := make([]any, 0, 3+len(keys)+len(args))
	command = append(command, "evalsha", s.script("take").Hash(), len(keys))
	for _, key := range keys {
		command = append(command, key)
	}
	command = append(command, args...)
	call := sentOnce{redis.NewCmd(ctx, command...)}
	if err := s.db.Hot.Process(ctx, call); redis.HasErrorPrefix(err, "NOSCRIPT") {
		command[0], command[1] = "eval", s.script("take").Text
		call = sentOnce{redis.NewCmd(ctx, command...)}
		_ = s.db.Hot.Process(ctx, call) // call.StringSlice returns the error
	}
	return call.StringSlice()
}
