package pool

import (
	"context"
	"errors"
	"time"

	"poold/internal/captcha"
)

// takes answers several calls that wait for nothing, in one script: the lane of a busy identity. Each call
// has its own answer, so that a repetition may come alone or with others. While callers wait, or if the next
// token does not suit the call, it answers slow: the call goes through take.
var takes = newScript("takes", `
-- KEYS 1 tokens:ID 2 tickets:ID 3 due
-- ARGV 1 id 2 margin_ms 3 moment at which the callers give up, then call, need_ms, nonce, row for each call
-- Reply now, then the stored answer of each call, or slow; now alone if it came too late
if now > tonumber(ARGV[3]) then return {now} end
local id, calls, replies, taken = ARGV[1], (#ARGV - 3) / 4, {now}, 0
local stock, texts, names, answers = {}, {}, {}, {}
if expire(id, now + ARGV[2]) and redis.call('EXISTS', KEYS[2]) == 0 then
  stock = redis.call('LRANGE', KEYS[1], 0, calls - 1)
  for i, element in ipairs(stock) do names[i] = '@token:' .. string.match(element, '|(.*)$') end
  texts = redis.call('MGET', unpack(names))
end
for i = 1, calls do answers[i] = '@reply:' .. ARGV[4 * i] end
local known = redis.call('MGET', unpack(answers))
for i = 1, calls do
  local element, token, done = stock[taken + 1], texts[taken + 1], 'slow'
  if element and not known[i] and token and leading(token) <= now + 1000 and leading(element) >= now + ARGV[4 * i + 1] then
    done = hand(ARGV[4 * i], '', ARGV[4 * i + 2], 'hits', element, token, ARGV[4 * i + 3])
    taken = taken + 1
  end
  replies[i + 1] = done
end
if taken > 0 then
  redis.call('LTRIM', KEYS[1], taken, -1)
  count(id, 'hits', taken)
  soon(id)
end
return replies
`)

// A lane gathers the calls of one identity while a script is under way.
type lane struct {
	pending []*laneCall
	busy    int // scripts under way
}

type laneCall struct {
	*Call
	answer string
	now    time.Time // on Redis' clock
	err    error
	done   chan struct{}
}

const (
	laneScripts = 2  // scripts of one identity under way
	laneMost    = 64 // calls of one script
)

var errSlow = errors.New("the call needs a script of its own")

// fast answers a call that waits for nothing together with others. An errSlow means that it must go through
// takeOnce.
func (p *Pool) fast(c *Call) (Token, error) {
	if c.Wait > 0 || c.Task || c.Fingerprint != "" || c.Rate > 0 || c.Budget.Scope != "" {
		return Token{}, errSlow
	}
	call := &laneCall{Call: c, done: make(chan struct{})}
	p.laneMu.Lock()
	l := p.lanes[c.ID]
	if l == nil {
		l = &lane{}
		p.lanes[c.ID] = l
	}
	l.pending = append(l.pending, call)
	if l.busy < laneScripts {
		l.busy++
		p.inBackground(func() { p.serve(c.ID, l) })
	}
	p.laneMu.Unlock()
	<-call.done
	switch {
	case call.err != nil:
		return Token{}, call.err
	case call.answer == "slow":
		return Token{}, errSlow
	}
	return p.answer(c, call.answer, call.now)
}

// serve runs scripts until no call of the lane is pending.
func (p *Pool) serve(id captcha.ID, l *lane) {
	for {
		p.laneMu.Lock()
		n := min(len(l.pending), laneMost)
		calls := l.pending[:n:n]
		if l.pending = l.pending[n:]; n == 0 {
			if l.busy--; l.busy == 0 {
				delete(p.lanes, id)
			}
			p.laneMu.Unlock()
			return
		}
		p.laneMu.Unlock()
		ctx, stop := bounded(context.Background())
		args := []any{string(id), calls[0].Margin.Milliseconds(), p.lateAfter(ctx)}
		for _, c := range calls {
			args = append(args, c.Name, c.need().Milliseconds(), c.Nonce, c.Row)
		}
		v, err := p.call(ctx, takes, []string{p.key("tokens", id), p.key("tickets", id), p.key("due")}, args...)
		stop()
		if len(v) == 1 {
			err = errLate
		}
		for i, c := range calls {
			if c.err = err; err == nil {
				c.answer, c.now = text(v[i+1]), time.UnixMilli(number(v[0]))
			}
			close(c.done)
		}
	}
}
