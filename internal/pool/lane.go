package pool

import (
	"context"
	"errors"
	"sync"
	"time"

	"poold/internal/captcha"
)

// takes answers several calls that wait for nothing, in one script: the lane of a busy identity. Each call
// has its own answer, so that a repetition may come alone or with others. While callers wait, or if the next
// token does not suit the call, it answers slow: the call goes through take.
var takes = newScript("takes", `
-- KEYS 1 tokens:ID 2 tickets:ID 3 due
-- ARGV 1 id 2 margin_ms 3 reply_ms, then call, need_ms, nonce, row for each call
-- Reply now, then stored answer and token of each call, or slow and ''
local id, replies, taken = ARGV[1], {now}, 0
local element = expire(id, now + ARGV[2])
local waiting = redis.call('EXISTS', KEYS[2]) == 1
for i = 4, #ARGV, 4 do
  local token, done = '', 'slow'
  local lives = element and not waiting and leading(element) >= now + ARGV[i + 1]
  if lives and not redis.call('GET', '@reply:' .. ARGV[i]) then
    local found = stored(string.match(element, '|(.*)$'))
    if found then
      redis.call('LPOP', KEYS[1])
      token, done = found, hand(ARGV[i], '', ARGV[i + 2], 'hits', element, tonumber(ARGV[3]), ARGV[i + 3])
      taken, element = taken + 1, redis.call('LINDEX', KEYS[1], 0)
    end
  end
  replies[#replies + 1] = done
  replies[#replies + 1] = token
end
if taken > 0 then
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
	answer, token string
	now           time.Time // on Redis' clock
	err           error
	done          chan struct{}
}

const (
	laneScripts = 2  // scripts of one identity under way
	laneMost    = 64 // calls of one script
)

// lanes are the lanes of the identities with calls under way.
type lanes struct {
	mu sync.Mutex
	of map[captcha.ID]*lane
}

var errSlow = errors.New("the call needs a script of its own")

// fast answers a call that waits for nothing together with others. An errSlow means that it must go through
// takeOnce.
func (p *Pool) fast(c *Call) (Token, error) {
	if c.Wait > 0 || c.Task || c.Fingerprint != "" || c.Rate > 0 {
		return Token{}, errSlow
	}
	call := &laneCall{Call: c, done: make(chan struct{})}
	p.lanes.mu.Lock()
	l := p.lanes.of[c.ID]
	if l == nil {
		l = &lane{}
		p.lanes.of[c.ID] = l
	}
	l.pending = append(l.pending, call)
	if l.busy < laneScripts {
		l.busy++
		p.inBackground(func() { p.serve(c.ID, l) })
	}
	p.lanes.mu.Unlock()
	<-call.done
	switch {
	case call.err != nil:
		return Token{}, call.err
	case call.answer == "slow":
		return Token{}, errSlow
	}
	return p.answer(c, call.answer, call.token, call.now)
}

// serve runs scripts until no call of the lane is pending.
func (p *Pool) serve(id captcha.ID, l *lane) {
	for {
		p.lanes.mu.Lock()
		n := min(len(l.pending), laneMost)
		calls := l.pending[:n:n]
		if l.pending = l.pending[n:]; n == 0 {
			if l.busy--; l.busy == 0 {
				delete(p.lanes.of, id)
			}
			p.lanes.mu.Unlock()
			return
		}
		p.lanes.mu.Unlock()
		args := []any{string(id), calls[0].Margin.Milliseconds(), replyLife.Milliseconds()}
		for _, c := range calls {
			args = append(args, c.Name, c.need().Milliseconds(), c.Nonce, c.Row)
		}
		v, err := p.call(context.Background(), takes, []string{p.key("tokens", id), p.key("tickets", id), p.key("due")}, args...)
		for i, c := range calls {
			if c.err = err; err == nil {
				c.answer, c.token, c.now = text(v[2*i+1]), text(v[2*i+2]), time.UnixMilli(number(v[0]))
			}
			close(c.done)
		}
	}
}
