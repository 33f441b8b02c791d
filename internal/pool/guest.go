package pool

import (
	"context"
	"strings"
	"time"

	"poold/internal/captcha"
)

// A guest is an identity without a target: POST /solve and client tasks buy for it, one order for each ticket. Its
// ID differs from that of a target with the same identity, so a new or removed target changes nothing for guests. All
// guests share their counters, because each picture is a guest of its own.

const guestPrefix = "guest-"

// Guests is the ID under which the counters of all guests are kept.
const Guests captcha.ID = "guests"

// Guest returns the ID of an identity without a target.
func Guest(id captcha.ID) captcha.ID { return guestPrefix + id }

// IdentityOf returns the ID without the prefix of a guest, and whether it had this prefix.
func IdentityOf(id captcha.ID) (identity captcha.ID, guest bool) {
	text, guest := strings.CutPrefix(string(id), guestPrefix)
	return captcha.ID(text), guest
}

// admit checks whether a request for a guest may pass. A rate limits all such requests. A brake of the identity refuses
// the request if it lasts longer than the caller should wait. A repeated call, and a call for which a token is ready,
// buy nothing and always pass.
// The steps of this file's scripts are in testdata/guest.txt.
var admit = newScript("admit", `
-- KEYS 1 rate:guests 2 brake:ID 3 reply:CALL 4 tokens:ID 5 tickets:ID
-- ARGV 1 id 2 nonce 3 rate (0 = none) 4 rate_per_ms 5 patience_ms
-- Reply {ok}, {limited, ms} or {brake, ms, kind, reason}
local done = redis.call('GET', KEYS[3])
if done and not string.find(done, '^failed|') or redis.call('LLEN', KEYS[4]) > redis.call('ZCARD', KEYS[5]) then
  return {'ok'}
end
local b = redis.call('HMGET', KEYS[2], 'next', 'every', 'kind', 'reason')
local wait = b[1] and math.min(b[1] - now, tonumber(b[2])) or 0
if wait > tonumber(ARGV[5]) then
  count(ARGV[1], 'denied', 1)
  return {'brake', wait, b[3], b[4]}
end
local rate, per = tonumber(ARGV[3]), tonumber(ARGV[4])
if rate == 0 or redis.call('ZSCORE', KEYS[1], ARGV[2]) then return {'ok'} end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - per)
local oldest = redis.call('ZRANGE', KEYS[1], -rate, -rate, 'WITHSCORES')[2]
if oldest then
  count(ARGV[1], 'denied', 1)
  return {'limited', oldest + per - now}
end
redis.call('ZADD', KEYS[1], now, ARGV[2])
redis.call('PEXPIRE', KEYS[1], per)
return {'ok'}
`)

// refuse answers one call, or all callers of an identity for whom there is no token and no order in flight, the latest
// caller first.
var refuse = newScript("refuse", `
-- KEYS 1 tickets:ID 2 tokens:ID 3 inflight:ID
-- ARGV 1 id 2 answer 3 ticket ('' = all that nothing serves)
-- Reply {number of answered callers}
if ARGV[3] ~= '' then
  if not redis.call('ZSCORE', KEYS[1], ARGV[3]) then return {0} end
  fail(ARGV[1], ARGV[3], ARGV[2])
  return {1}
end
local tickets = redis.call('ZREVRANGE', KEYS[1], 0, 999)
local n = math.max(0, #tickets - redis.call('LLEN', KEYS[2]) - redis.call('ZCARD', KEYS[3]))
for i = 1, n do fail(ARGV[1], tickets[i], ARGV[2]) end
return {n}
`)

// Patience is the longest wait for the end of an obstacle. If an obstacle lasts longer, the caller gets the refusal at
// once.
const Patience = 2 * time.Second

// Rate limits requests; the zero value means no limit.
type Rate struct {
	Count int
	Per   time.Duration
}

// Admit checks whether a request for a guest may call Take. A *RateError means that too many requests came. A
// *FailedError means that the brake of the identity lasts longer than Patience. A request with an error counts as
// denied, and must not call Take.
func (p *Pool) Admit(ctx context.Context, c *Call, rate Rate) error {
	v, err := p.runScript(ctx, admit,
		[]string{p.key("rate", Guests), p.key("brake", c.ID), p.key("reply", c.Name), p.key("tokens", c.ID),
			p.key("tickets", c.ID)},
		string(c.ID), c.Nonce, rate.Count, max(rate.Per, time.Millisecond).Milliseconds(), Patience.Milliseconds())
	switch {
	case err != nil:
		return err
	case text(v[0]) == "limited":
		return &RateError{RetryAfter: span(v[1])}
	case text(v[0]) == "brake":
		return &FailedError{BadParameters: text(v[2]) == string(BadParameters), Reason: text(v[3])}
	}
	return nil
}

// Refuse answers all callers of an identity for whom there is no token and no order in flight, because no order can be
// placed. It returns the number of answered callers.
func (p *Pool) Refuse(ctx context.Context, id captcha.ID, e *FailedError) (int, error) {
	return p.refuse(ctx, id, "", e)
}

// Fail answers one call that waits.
func (p *Pool) Fail(ctx context.Context, c *Call, e *FailedError) error {
	_, err := p.refuse(ctx, c.ID, p.ticket(c), e)
	return err
}

func (p *Pool) refuse(ctx context.Context, id captcha.ID, ticket string, e *FailedError) (int, error) {
	v, err := p.runScript(ctx, refuse, []string{p.key("tickets", id), p.key("tokens", id), p.key("inflight", id)},
		string(id), e.stored(), ticket)
	if err != nil {
		return 0, err
	}
	return int(number(v[0])), nil
}
