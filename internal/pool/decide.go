package pool

import (
	"context"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/captcha"
)

// decide reads the counts of an identity, and sets the time of its next decision. If tokens are missing, the time is in
// 2 s: the replica that runs the script places orders, and if it dies, another replica decides then. Else it is when
// the next token will be too old, or after recheck_ms if that is earlier. With only_read, decide changes nothing.
// The steps of this file's scripts are in testdata/decide.txt, due.txt and decided.txt.
var decide = newScript("decide", `
-- KEYS 1 due 2 tokens:ID 3 inflight:ID 4 tickets:ID 5 stats:ID 6 brake:ID
-- ARGV 1 id 2 only_read (1, 0) 3 margin_ms 4 lead_ms 5 want 6 recheck_ms 7 stuck providers
-- Reply {ms until the next decision, fresh, outliving, orders, waiting, ms until the first token is too old,
--       ms until the outliving are fewer, ms until the first deadline, stats, brake, now} and with only_read
--       {orders' states, tokens in their margin}; -1 = never
local id, horizon, only_read = ARGV[1], now + ARGV[3] + ARGV[4], ARGV[2] == '1'
local waiting, stale, first, _ = only_read and redis.call('ZCARD', KEYS[4]) or bury(id), 0
if only_read then
  stale, _, first = ageing(id, now + ARGV[3])
else
  first = expire(id, now + ARGV[3])
end
local old, outliving, young = stale, 0
if first then old, outliving, young = ageing(id, horizon) end
local fresh = old + outliving - stale
local orders, ends = coming(id, only_read and '' or ARGV[7]), redis.call('ZRANGE', KEYS[3], 0, 0, 'WITHSCORES')[2]
local stats = redis.call('HGETALL', KEYS[5])
local brake = redis.call('HGETALL', KEYS[6])
local expiry, shrinks = first and leading(first) - now - ARGV[3] or -1, young and leading(young) - horizon + 1 or -1
local left = ends and math.max(1, ends - now) or -1
local reply = {0, fresh, outliving, orders, waiting, expiry, shrinks, left, stats, brake, now}
if only_read then
  local states = {}
  for _, order in ipairs(redis.call('ZRANGE', KEYS[3], 0, -1)) do
    states[#states + 1] = redis.call('HGET', '@order:' .. order, 'state') or ''
  end
  reply[12], reply[13] = states, stale
  return reply
end
local delay = tonumber(ARGV[6])
if ARGV[5] + waiting > outliving + orders then
  delay = math.min(delay, 2000)
elseif shrinks > 0 then
  delay = math.min(delay, shrinks)
end
redis.call('ZADD', KEYS[1], now + delay, id)
reply[1] = delay
return reply
`)

// dueSome returns the identities whose decision is due to the replica that asks, and makes them due again in 2 s, in
// case that replica dies. For each obstacle that may have ended, it also wakes the first identity that waits.
var dueSome = newScript("due_some", `
-- KEYS 1 due 2 obstacles
-- ARGV 1 most
-- Reply list of identities
for _, obstacle in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, 20)) do
  local first = turn(obstacle)
  redis.call('ZREM', KEYS[2], obstacle)
  if first ~= '' then
    redis.call('ZADD', KEYS[1], now, first)
    redis.call('ZADD', KEYS[2], now + 1000, obstacle)
  end
end
local ids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[1])
for _, id in ipairs(ids) do redis.call('ZADD', KEYS[1], now + 2000, id) end
return ids
`)

// decided stores the result of a decision: the time of the next one if the script decide chose another time, and the
// status if it has changed.
var decided = newScript("decided", `
-- KEYS 1 due 2 stats:ID
-- ARGV 1 id 2 next_ms (-1 = unchanged) 3 status ('' = unchanged)
if ARGV[2] ~= '-1' then redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1]) end
if ARGV[3] ~= '' then
  redis.call('HSET', KEYS[2], 'status', ARGV[3])
  redis.call('PEXPIRE', KEYS[2], 30 * 86400000)
end
return {1}
`)

// disown postpones the decision about an identity that this replica does not know. If callers wait or orders are in
// flight, another replica is asked in 2 s. Else the identity is due only when its next token expires, so that the
// expiry is counted.
var disown = newScript("disown", `
-- KEYS 1 due 2 tickets:ID 3 inflight:ID
-- ARGV 1 id
local first = expire(ARGV[1], now)
bury(ARGV[1])
if redis.call('EXISTS', KEYS[2], KEYS[3]) > 0 then return {1} end
redis.call('ZREM', KEYS[1], ARGV[1])
if first then redis.call('ZADD', KEYS[1], leading(first) + 1, ARGV[1]) end
return {1}
`)

// Counts is the state of an identity at one moment. Durations that do not apply are negative.
type Counts struct {
	Due            time.Duration // time until the next decision
	Fresh          int           // tokens that outlive the margin
	Outliving      int           // tokens that outlive the margin and the lead time
	Orders         int           // orders in flight; for a decision without those of stuck providers
	Waiting        int           // tickets
	NextExpiry     time.Duration // until the first fresh token enters its margin
	NextAgeing     time.Duration // until Outliving falls
	NextEnd        time.Duration // until the first deadline of an order
	Counters       Counters
	Leads          []time.Duration // the last 48 lead times, newest first
	Reports        []bool          // the last 20 reports, newest first; true = accepted
	Failures       []Failure       // the last 5 failed orders, newest first
	Brake          Brake           // what keeps the identity from buying
	Status         string          // what the last decision noted; see Decided
	LearnedVersion int64           // of the learned state; 0 = none
	At             time.Time       // on Redis' clock

	// Only the method Counts fills these fields.
	BoughtInFlight, Unknown int // orders in flight that count as bought; those whose submit got no answer
}

// Counters count the events of an identity at all replicas, since the identity was first seen. This equation always
// holds:
//
//	Bought = Hits + Waited - Returned + Expired + Failed + Lost + Flushed + Counts.Fresh + Counts.BoughtInFlight
type Counters struct {
	Hits, Waited, Missed, Left, Replays, Returned           int64
	Denied                                                  int64 // requests for which no token can come; see Admit
	Bought, Solved, Expired, Flushed, Failed, Lost, Refused int64
	Accepted, Rejected                                      int64
	Spent                                                   int64 // billionths of the currency
}

// Requests returns the number of requests: those that have ended, and those whose callers wait.
func (c Counts) Requests() int64 {
	f := c.Counters
	return f.Hits + f.Waited + f.Missed + f.Left + int64(c.Waiting)
}

// Failure is a failed order.
type Failure struct {
	At     time.Time
	Reason string
}

// Query asks for the counts of an identity.
type Query struct {
	ID           captcha.ID
	Margin, Lead time.Duration
	Want         int           // tokens that the policy wants
	Recheck      time.Duration // time until the next decision if nothing changes
}

// Decide reads the counts of an identity for a decision, and notes when the next decision is due.
func (p *Pool) Decide(ctx context.Context, q Query) (Counts, error) { return p.decide(ctx, false, q) }

// Counts reads the counts of an identity and changes nothing.
func (p *Pool) Counts(ctx context.Context, q Query) (Counts, error) { return p.decide(ctx, true, q) }

func (p *Pool) decide(ctx context.Context, onlyRead bool, q Query) (Counts, error) {
	keys, args := p.decideArguments(onlyRead, q)
	v, err := p.runScript(ctx, decide, keys, args...)
	if err != nil {
		return Counts{}, err
	}
	return readCounts(v), nil
}

func (p *Pool) decideArguments(onlyRead bool, q Query) (keys []string, args []any) {
	keys = []string{p.key("due"), p.key("tokens", q.ID), p.key("inflight", q.ID), p.key("tickets", q.ID), p.stats(q.ID),
		p.key("brake", q.ID)}
	return keys, []any{string(q.ID), bit(onlyRead), q.Margin.Milliseconds(), q.Lead.Milliseconds(), q.Want,
		max(q.Recheck, time.Second).Milliseconds(), *p.stuck.Load()}
}

// readCounts reads the reply of decide.
func readCounts(v []any) Counts {
	c := Counts{
		Due: span(v[0]), Fresh: int(number(v[1])), Outliving: int(number(v[2])), Orders: int(number(v[3])),
		Waiting: int(number(v[4])), NextExpiry: span(v[5]), NextAgeing: span(v[6]), NextEnd: span(v[7]),
		At: time.UnixMilli(number(v[10])).UTC(),
	}
	stats := fieldsOf(v[8])
	c.Status, c.LearnedVersion = stats["status"], stats.int("learned_version")
	c.Counters = stats.counters()
	for _, lead := range stats.list("leads") {
		c.Leads = append(c.Leads, time.Duration(lead)*time.Millisecond)
	}
	for _, outcome := range stats.list("reports") {
		c.Reports = append(c.Reports, outcome == 1)
	}
	for _, line := range strings.Split(stats["failures"], ",") {
		if at, reason, ok := strings.Cut(line, "|"); ok {
			c.Failures = append(c.Failures, Failure{At: millis(at), Reason: strings.ReplaceAll(reason, "\x1f", ",")})
		}
	}
	c.Brake = readBrake(fieldsOf(v[9]), c.At)
	if len(v) > 11 { // they were only read
		c.Counters.Expired += number(v[12]) // the next decision counts them
		for _, state := range texts(v[11]) {
			switch State(state) {
			case Unknown:
				c.Unknown++
				c.BoughtInFlight++
			case Bought:
				c.BoughtInFlight++
			}
		}
	}
	return c
}

// Due returns identities whose decision is due, at most `most`. This replica must decide about them within 2 s.
func (p *Pool) Due(ctx context.Context, most int) ([]captcha.ID, error) {
	v, err := p.runScript(ctx, dueSome, []string{p.key("due"), p.key("obstacles")}, most)
	ids := make([]captcha.ID, len(v))
	for i := range v {
		ids[i] = captcha.ID(text(v[i]))
	}
	return ids, err
}

// Decided stores the result of a decision: the time until the next decision (negative: the time that Decide set stays),
// and a status for all replicas ("" = unchanged).
func (p *Pool) Decided(ctx context.Context, id captcha.ID, next time.Duration, status string) error {
	if next < 0 {
		next = -time.Millisecond
	}
	_, err := p.runScript(ctx, decided, []string{p.key("due"), p.stats(id)}, string(id), next.Milliseconds(), status)
	return err
}

// Disown postpones the decision about an identity that this replica does not know; see the script disown.
func (p *Pool) Disown(ctx context.Context, id captcha.ID) error {
	_, err := p.runScript(ctx, disown, []string{p.key("due"), p.key("tickets", id), p.key("inflight", id)}, string(id))
	return err
}

// learnedLife is how long a learned state is kept after its last change.
const learnedLife = 30 * 24 * time.Hour

// Learned returns the learned state of an identity; nil = none.
func (p *Pool) Learned(ctx context.Context, id captcha.ID) (state []byte, err error) {
	var stored *redis.StringCmd
	if err = p.pipelined(ctx, func(pipe redis.Pipeliner) { stored = pipe.Get(ctx, p.key("learned", id)) }); err != nil {
		return nil, err
	}
	return []byte(stored.Val()), nil
}

// SaveLearned stores the learned state of an identity and returns its version.
func (p *Pool) SaveLearned(ctx context.Context, id captcha.ID, state []byte) (version int64, err error) {
	var saved *redis.IntCmd
	err = p.pipelined(ctx, func(pipe redis.Pipeliner) {
		pipe.Set(ctx, p.key("learned", id), state, learnedLife)
		saved = pipe.HIncrBy(ctx, p.stats(id), "learned_version", 1)
	})
	return saved.Val(), err
}

// SetDue makes decisions due now, except those that already have a time. Each replica passes all its targets at its
// first pass and every 30 s.
func (p *Pool) SetDue(ctx context.Context, ids []captcha.ID) error {
	if len(ids) == 0 {
		return nil
	}
	members := make([]redis.Z, len(ids))
	for i, id := range ids {
		members[i].Member = string(id)
	}
	return p.pipelined(ctx, func(pipe redis.Pipeliner) { pipe.ZAddNX(ctx, p.key("due"), members...) })
}
