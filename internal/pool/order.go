package pool

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"poold/internal/captcha"
)

// State is the state of an order in the journal.
type State string

// The states of an order. The journal keeps Ended for a minute, so that a late message cannot bring
// the order back.
const (
	Placed     State = "placed"     // stored, not submitted
	Submitting State = "submitting" // the submit may have left
	Unknown    State = "unknown"    // the submit got no answer: the order counts as bought
	Bought     State = "bought"     // the task is known
	Ended      State = "ended"
)

// place stores a new order, if brakes, depth, budgets and permits allow it. If no permit is free, or a brake of the
// account or a shared budget refuses the order, the identity gets a place in the queue of this obstacle
// (queue:OBSTACLE).
// The steps of this file's scripts are in testdata/place.txt, begin.txt, bought.txt and end.txt.
var place = newScript("place", `
-- KEYS 1 order:ORDER 2 deadlines 3 owned:REPLICA 4 permits:ACCOUNT 5 inflight:ID 6 tokens:ID 7 tickets:ID
--      8 brake:KEY 9 brake:ID 10 queue:ACCOUNT 11 due 12 obstacles, then solves:SCOPE for each budget
-- ARGV 1 order 2 id 3 account 4 replica 5 life_ms 6 concurrency 7 depth 8 horizon_ms
--      9 facts 10 price 11 unpooled (1: a picture, whose order no other replica could place) 12 stuck providers,
--      then scope, per_hour, per_day, micros_per_day, micros_per_month for each budget
-- Reply {ok, now, next identity of the queue}, or
--       {enough | paused | permit | budget | brake, ms, text, kind of the brake, or spent of a budget in money}
local order, id, account, replica, life, concurrency, depth, horizon, facts, price, unpooled, stuck = unpack(ARGV)
if redis.call('EXISTS', KEYS[1]) == 1 then return {'ok', now, ''} end -- a repetition, perhaps of an ended order
local waiting = redis.call('ZCARD', KEYS[7])
local _, outliving = ageing(id, now + horizon)
if unpooled == '0' and outliving + coming(id, stuck) >= depth + waiting then
  redis.call('ZREM', KEYS[10], id)
  return {'enough', 0, '', ''}
end
local function queue(obstacle, opens)
  if unpooled == '1' then return end
  local place = tonumber(redis.call('GET', '@turn:' .. id) or now)
  redis.call('ZADD', '@queue:' .. obstacle, 'LT', waiting > 0 and math.min(place, now - 1e12) or place, id)
  redis.call('ZADD', KEYS[12], 'LT', opens, obstacle)
  redis.call('ZADD', KEYS[11], now + 30000, id)
end
local probes = {}
-- braked returns the refusal of a brake, after queuing the identity if the brake is an account's. It returns nil if no
-- brake is set, or if the brake lets a probe pass, which it then adds to probes.
local function braked(key, name)
  local next, every, reason, paused, resumes, kind, since, failed_in_a_row = unpack(redis.call('HMGET', key,
    'next', 'every', 'reason', 'paused', 'resumes', 'kind', 'since', 'failed_in_a_row'))
  local resumed = tonumber(resumes or 0) > 0 and tonumber(resumes) <= now
  if paused and not resumed then return {'paused', 0, paused, ''} end
  if not next then return end
  local wait = math.min(next - now, math.max(every, 60000)) -- never longer than its interval: the clock may go back
  if wait > 0 then
    if name ~= '' then queue(account, now + wait) end
    return {'brake', wait, name .. reason, kind or ''}
  end
  local rest = name == '' and failed_in_a_row + 1 + redis.call('ZCARD', KEYS[5]) >= 15 and since + 60000 or 0
  probes[#probes + 1] = {key, math.max(now + every, rest)}
end
if redis.call('EXISTS', KEYS[8], KEYS[9]) > 0 then
  local refusal = braked(KEYS[8], 'provider ' .. account .. ': ') or braked(KEYS[9], '')
  if refusal then return refusal end
end
local scope, opens, spent = nil, 0, '' -- the full budget that opens last
local function full(of, moment, text)
  if moment > opens then scope, opens, spent = of, moment, text end
end
for i = 13, #KEYS do
  local at = 13 + 5 * (i - 13)
  redis.call('ZREMRANGEBYSCORE', KEYS[i], '-inf', now - 86400000)
  for j, span in ipairs({3600000, 86400000}) do
    local limit = tonumber(ARGV[at + j])
    local from = string.format('(%.0f', now - span)
    local used = limit > 0 and redis.call('ZCOUNT', KEYS[i], from, '+inf') or 0
    if limit > 0 and used >= limit then
      local oldest = redis.call('ZRANGEBYSCORE', KEYS[i], from, '+inf', 'WITHSCORES', 'LIMIT', used - limit, 1)[2]
      full(ARGV[at], oldest + span, used .. ' of ' .. limit .. ' solves in the last ' ..
        (j == 1 and '60 minutes' or '24 hours'))
    end
  end
  local text, moment = overspent(ARGV[at], micros(price), ARGV[at + 3], ARGV[at + 4])
  if text then full(ARGV[at], moment, text) end
end
if scope then
  if scope ~= id then queue('budget:' .. scope, opens) end
  return {'budget', opens - now, scope, spent}
end
local busy = redis.call('ZCARD', KEYS[4])
if busy >= tonumber(concurrency) then
  queue(account, now + 10000)
  return {'permit', 0, busy .. ' of ' .. concurrency .. ' threads of ' .. account .. ' in use', ''}
end
for _, p in ipairs(probes) do redis.call('HSET', p[1], 'next', p[2]) end
for i = 13, #KEYS do
  local at = 13 + 5 * (i - 13)
  redis.call('ZADD', KEYS[i], now, order)
  redis.call('PEXPIRE', KEYS[i], 86400000)
  if ARGV[at + 3] + ARGV[at + 4] > 0 then charge(ARGV[at], now, micros(price)) end
end
for _, key in ipairs({KEYS[2], KEYS[4], KEYS[5]}) do redis.call('ZADD', key, now + life, order) end
redis.call('SADD', KEYS[3], order)
-- A replica that counted as dead until now is listed again, so that its order is adopted if it dies.
redis.call('ZADD', '@replicas', 'NX', now, replica)
redis.call('HSET', KEYS[1], 'id', id, 'account', account, 'owner', replica, 'state', 'placed', 'placed', now,
  'facts', facts, 'price', price)
-- Usually no identity waits at the account, and this one had no turn in the queue.
if redis.call('EXISTS', KEYS[10], '@turn:' .. id) == 0 then return {'ok', now, ''} end
redis.call('ZREM', KEYS[10], id)
redis.call('DEL', '@turn:' .. id)
return {'ok', now, redis.call('ZCARD', KEYS[4]) < tonumber(concurrency) and turn(account) or ''}
`)

// begin notes that the submit may have been sent. Only the owner of the order may submit it, and only once.
var begin = newScript("begin", `
-- KEYS 1 order:ORDER
-- ARGV 1 replica 2 nonce of the submit
-- Reply {1 submit, 0 do not}
local owner, state, submit = unpack(redis.call('HMGET', KEYS[1], 'owner', 'state', 'submit'))
if owner ~= ARGV[1] or state ~= 'placed' and not (state == 'submitting' and submit == ARGV[2]) then return {0} end
redis.call('HSET', KEYS[1], 'state', 'submitting', 'submit', ARGV[2], 'submitted', now)
return {1}
`)

// bought notes what became of a submit: the task of the order, or, with an empty task, that there was no clear answer.
// The replica that reports a task becomes the owner of the order.
var bought = newScript("bought", `
-- KEYS 1 order:ORDER 2 task:ACCOUNT:TASK 3 stats:ID 4 outbox:ends 5 brake:KEY 6 deadlines 7 permits:ACCOUNT
--      8 inflight:ID
-- ARGV 1 order 2 id 3 replica 4 task 5 task_ms 6 row ('' = no sink) 7 unknown_life_ms
-- Reply {ok}, {gone}, or {repeated_task}: it belongs to another order
local order, id, replica, task, task_life, row, unknown_life = unpack(ARGV)
local owner, state, account, submitted = unpack(redis.call('HMGET', KEYS[1], 'owner', 'state', 'account', 'submitted'))
if not owner or state == 'ended' or task == '' and (owner ~= replica or state == 'bought') then return {'gone'} end
if task ~= '' then
  local other = redis.call('GET', KEYS[2])
  if other and other ~= order then return {'repeated_task'} end
  redis.call('SET', KEYS[2], order, 'PX', task_life)
  local kind = redis.call('HGET', KEYS[5], 'kind')
  -- an accepted submit proves the account
  if kind and kind ~= 'polls' and kind ~= 'hangs' then prove(KEYS[5], account, submitted or now) end
end
redis.call('HSET', KEYS[1], 'state', task == '' and 'unknown' or 'bought', 'task', task, 'owner', replica)
if owner ~= replica then redis.call('SREM', '@owned:' .. owner, order) end -- it was taken over meanwhile
if task == '' then
  redis.call('SREM', '@owned:' .. replica, order)
  for i = 6, 8 do redis.call('ZADD', KEYS[i], 'XX', 'LT', now + unknown_life, order) end
elseif owner ~= replica or state == 'unknown' then
  redis.call('SADD', '@owned:' .. replica, order)
  redis.call('ZADD', '@replicas', 'NX', now, replica) -- as in place
end
if state == 'placed' or state == 'submitting' then count(id, 'bought', 1) end
if state ~= 'bought' and row ~= '' then tell('ends', 'kind', 'active', 'order', order, 'row', row) end
return {'ok'}
`)

// end ends an order, and changes in one step all that depends on this. A repetition finds the order ended.
//
// Package purchase names the end of an order, and the script corrects it by the journal. Solved, failed and lost orders
// were bought. An order with bad_parameters was bought if a poll found this. Orders that ended as refused, busy, fault
// or stopped were not bought. The script turns late into stopped or lost. It replies discarded if a token came inside
// its margin, and repeated if the service sold the text before; both were bought. In budgets only these orders still
// count after their end: solved, discarded, repeated, lost, and failed ones that cost something.
var end = newScript("end", `
-- KEYS 1 order:ORDER 2 deadlines 3 permits:ACCOUNT 4 inflight:ID 5 tokens:ID 6 tickets:ID 7 brake:KEY
--      8 brake:ID 9 queue:ACCOUNT 10 stats:ID 11 outbox:ends 12 value:ID:HASH 13 token:ORDER 14 sale:ORDER,
--      then solves:SCOPE for each budget
-- ARGV 1 order 2 replica that must own it ('' = any: a callback, or past the deadline) 3 outcome
--      4 born_after (ms after it was placed) 5 lifetime_ms 6 margin_ms 7 provider|price|extra|text
--      8 row ('' = no sink) 9 reason 10 answer for a waiting caller: '' or a FailedError as JSON 11 lead_ms 12 task
--      13 costs although it failed (1, 0) 14 type ('' = no provider is compared with this one)
--      15 number of other providers that may get the next order, then the scope of each budget in money
-- Reply {outcome, next identity of the queue, 1: a decision is due soon}; outcome may be gone, or other: another
-- replica owns the order.
local order, replica, outcome, born_after, lifetime, margin, token, row, reason, answer, lead, task,
  costs_though_failed, captcha_type, others = unpack(ARGV)
local journal, deadlines, permits, inflight, tokens, tickets, key_brake, id_brake, _, _, _, value_key, token_key,
  sale_key = unpack(KEYS)
local owner, state, placed, id, account, price =
  unpack(redis.call('HMGET', journal, 'owner', 'state', 'placed', 'id', 'account', 'price'))
if not owner or state == 'ended' then return {'gone', '', 1} end
if replica ~= '' and owner ~= replica then return {'other', '', 1} end
placed = tonumber(placed)
if outcome == 'late' then outcome = state == 'placed' and 'stopped' or 'lost' end
-- 1. The order leaves the journal, its permit and the orders in flight.
for _, key in ipairs({deadlines, permits, inflight}) do redis.call('ZREM', key, order) end -- needs no memory
redis.call('DEL', journal)
redis.call('HSET', journal, 'state', 'ended')
redis.call('PEXPIRE', journal, 60000)
redis.call('SREM', '@owned:' .. owner, order)
-- 2. Counters and budgets.
local was_bought = state == 'bought' or state == 'unknown'
local is_bought = outcome == 'solved' or outcome == 'failed' or outcome == 'lost' or
  outcome == 'bad_parameters' and was_bought
-- both ways: an unknown order may have been refused
if is_bought ~= was_bought then count(id, 'bought', is_bought and 1 or -1) end
local costs = outcome == 'solved' or outcome == 'lost' or costs_though_failed == '1'
if not costs then
  for i = 15, #KEYS do redis.call('ZREM', KEYS[i], order) end
  for i = 16, #ARGV do charge(ARGV[i], placed, -micros(price)) end -- on the day of its placing
end
-- 3. The token enters the stock. If the service refused the parameters before, a later order that was solved, or that
-- failed for another reason, disproves that refusal.
local was, began = unpack(redis.call('HMGET', id_brake, 'kind', 'since'))
local stays = was == 'bad_parameters' and placed <= tonumber(began or 0)
local quiet = false -- a token that comes as expected, beside others, needs no decision
if outcome == 'solved' then
  local born = math.min(now, placed + born_after)
  local dies, provider = born + lifetime, string.match(token, '^[^|]*')
  if not redis.call('SET', value_key, order, 'NX', 'PX', math.max(1, dies - now)) then
    outcome, reason = 'repeated', 'provider ' .. account .. ' sold this token before'
    count(id, 'failed', 1)
  else
    count(id, 'solved', 1)
    if lead ~= '0' then keep('@stats:' .. counter_id(id), 'leads', lead, 48) end
    if dies < now + margin then
      outcome, reason = 'discarded', 'the token came too late for its margin'
      count(id, 'expired', 1)
    else
      quiet = redis.call('EXISTS', id_brake) == 0
      if not quiet and not stays then
        redis.call('HDEL', id_brake, 'kind', 'reason', 'since', 'count', 'failed_in_a_row', 'every', 'next')
      end
      local avoided = not quiet and redis.call('HGET', id_brake, 'avoid:' .. account)
      -- The account solves the identity again, so the identity no longer avoids it.
      if avoided and placed > avoided - 600000 then redis.call('HDEL', id_brake, 'avoid:' .. account) end
      redis.call('SET', token_key, string.format('%.0f|', born) .. token, 'PX', dies - now + 60000)
      local sold = table.concat({id, provider, task, string.format('%.0f', born), captcha_type}, '|')
      redis.call('SET', sale_key, sold, 'PX', dies - now + 900000)
      if insert(id, string.format('%.0f|', dies) .. order) then quiet = false end
      wake(id)
    end
  end
elseif outcome ~= 'stopped' then
  count(id, outcome == 'bad_parameters' and (is_bought and 'failed' or 'refused') or outcome, 1)
end
if costs and tonumber(price) > 0 then count(id, 'spent', price) end
if costs then charge('spent', now, micros(price)) end
-- 4. The result counts in the comparison of providers, except bad_parameters, which says more about the identity than
-- about the provider.
if captcha_type ~= '' and not string.find('bad_parameters busy fault stopped', outcome, 1, true) then
  local good = (outcome == 'solved' or outcome == 'discarded') and 1 or 0
  tally(account, captcha_type, 'order:', {recent = 1, ['order:ended'] = 1, ['order:solved'] = good,
    ['order:leads'] = good * lead, ['order:squares'] = good * lead ^ 2})
end
if was == 'bad_parameters' and not stays and string.find('failed repeated discarded', outcome, 1, true) then
  redis.call('HDEL', id_brake, 'kind', 'since', 'every', 'next')
end
-- 5. Brakes. The function counts a failure towards a brake, which begins at the count 'from'. A failed probe doubles
-- the interval of the brake. When 15 orders have failed, an identity places no further one in the first minute of its
-- brake.
local function brake(key, weight, from, every, most)
  local since, interval, kind = unpack(redis.call('HMGET', key, 'since', 'every', 'kind'))
  local strict = kind and kind ~= outcome and string.find('bad_parameters account outage polls hangs', kind, 1, true)
  if strict then return end -- it stays
  local n, probe = redis.call('HINCRBY', key, 'count', weight), since and placed > tonumber(since)
  local failed_in_a_row = redis.call('HINCRBY', key, 'failed_in_a_row', 1)
  redis.call('HSET', key, 'kind', outcome, 'reason', reason)
  if interval and kind == outcome then every = math.min(most, probe and 2 * interval or tonumber(interval)) end
  if n >= from then
    local many = key == id_brake and failed_in_a_row + redis.call('ZCARD', inflight) >= 15
    local rest = many and (since or now) + 60000 or 0
    redis.call('HSET', key, 'every', every, 'next', math.max(now + every, rest))
    redis.call('HSETNX', key, 'since', now)
    if key == id_brake and captcha_type ~= '' then redis.call('HSET', key, 'avoid:' .. account, now + 600000) end
  end
  if redis.call('HEXISTS', key, 'paused') == 0 then redis.call('PEXPIRE', key, 86400000) end
end
local spread = false -- another provider may take what this one refuses: no brake, but the orders avoid this one
if outcome == 'bad_parameters' and others ~= '0' then
  local avoid, avoided = 'avoid:' .. account, 1
  local ends = tonumber(redis.call('HGET', id_brake, avoid) or 0)
  local list = redis.call('HGETALL', id_brake)
  for i = 1, #list, 2 do
    local other = list[i] ~= avoid and string.sub(list[i], 1, 6) == 'avoid:'
    if other and tonumber(list[i + 1]) > now then avoided = avoided + 1 end
  end
  spread = avoided <= tonumber(others) and (ends <= now or placed <= ends - 600000)
  if ends <= now then redis.call('HSET', id_brake, avoid, now + 600000) end
  redis.call('HSET', id_brake, 'reason', reason)
end
if spread then
  if redis.call('HEXISTS', id_brake, 'paused') == 0 then redis.call('PEXPIRE', id_brake, 86400000) end
elseif outcome == 'bad_parameters' then brake(id_brake, 8, 1, 60000, 3600000)
elseif outcome == 'refused' then
  brake(id_brake, 3, 8, 5000, 5000)
  brake(key_brake, 1, 20, 5000, 5000)
elseif string.find('failed repeated lost discarded', outcome, 1, true) then brake(id_brake, 1, 8, 5000, 5000)
elseif outcome == 'busy' then brake(key_brake, 1, 1, 1000, 10000)
end
if outcome ~= 'solved' and outcome ~= 'stopped' and outcome ~= 'busy' then
  keep('@stats:' .. counter_id(id), 'failures', now .. '|' .. string.gsub(reason, ',', '\031'), 5)
end
-- 6. Pending callers for whom no other order is in flight get the answer, and the history gets the row.
if answer ~= '' and outcome ~= 'solved' and outcome ~= 'discarded' and not spread then
  local callers = redis.call('ZRANGE', tickets, 0, 999)
  local supply = redis.call('LLEN', tokens) + redis.call('ZCARD', inflight)
  local n = outcome == 'bad_parameters' and #callers or math.min(1, #callers - supply)
  for i = 1, n do fail(id, callers[i], answer) end
end
if row ~= '' then tell('ends', 'kind', outcome, 'order', order, 'row', row) end
if not quiet then soon(id) end
return {outcome, turn(account), quiet and 0 or 1}
`)

// Order is an order to place.
type Order struct {
	Name        string // random; without |
	ID          captcha.ID
	Account     string        // whose permits it needs
	Key         string        // of the account's brake: another key of the same account has another brake
	Life        time.Duration // until the deadline
	UnknownLife time.Duration // until the deadline of an order whose submit got no answer; 0 = Life
	Concurrency int           // of the account
	Depth       int           // the order is not placed if so many tokens and orders are there already, beside the tickets
	Horizon     time.Duration // tokens that die sooner do not count; see purchase.Spec
	Facts       string        // JSON that an adopter needs
	Price       int64         // billionths of the currency; -1 = unknown
	Unpooled    bool          // the depth does not count, and no other replica could place it: a picture
	Budgets     []Budget
}

// The reasons why an order is not placed.
const (
	ReasonEnough = "enough" // tokens and orders suffice
	ReasonPaused = "paused"
	ReasonBrake  = "brake"
	ReasonPermit = "permit" // all permits of the account are in use
	ReasonBudget = "budget"

	ReasonProvider = "provider" // no provider can take it: only in a FailedError
)

// NotPlacedError says why an order was not placed.
type NotPlacedError struct {
	Reason string
	After  time.Duration // when to try again; 0 = when something changes
	Text   string        // the brake's reason, or how many threads are in use
	Kind   string        // of the brake
	Scope  string        // of the budget
	Spent  string        // of the budget: $4.99 of $5 on this UTC day
}

// Budget returns a sentence about the budget that refused the order, such as "the overall budget is used up".
func (e *NotPlacedError) Budget() string { return UsedUp(BudgetName(e.Scope, "this target"), e.Spent) }

func (e *NotPlacedError) Error() string {
	return "pool: no order: " + e.Reason + " " + e.Scope + e.Text
}

// Place stores an order. It returns the time by Redis' clock, and the identity that may place the next order at the
// account.
func (p *Pool) Place(ctx context.Context, o *Order) (at time.Time, next captcha.ID, err error) {
	keys := []string{p.key("order", o.Name), p.key("deadlines"), p.key("owned", p.Replica), p.key("permits", o.Account),
		p.key("inflight", o.ID), p.key("tokens", o.ID), p.key("tickets", o.ID), p.key("brake", o.Key), p.key("brake", o.ID),
		p.key("queue", o.Account), p.key("due"), p.key("obstacles")}
	args := []any{o.Name, string(o.ID), o.Account, p.Replica, o.Life.Milliseconds(), o.Concurrency, o.Depth,
		o.Horizon.Milliseconds(), o.Facts, o.Price, bit(o.Unpooled), *p.stuck.Load()}
	for _, b := range o.Budgets {
		keys = append(keys, p.key("solves", b.Scope))
		args = append(args, b.Scope, b.PerHour, b.PerDay, b.MicrosPerDay, b.MicrosPerMonth)
	}
	v, err := p.runScript(ctx, place, keys, args...)
	switch {
	case err != nil:
		return time.Time{}, "", err
	case text(v[0]) == "ok":
		return time.UnixMilli(number(v[1])).UTC(), captcha.ID(text(v[2])), nil
	}
	refused := &NotPlacedError{Reason: text(v[0]), After: span(v[1])}
	if refused.Reason == ReasonBudget {
		refused.Scope, refused.Spent = text(v[2]), p.priced(text(v[3]))
	} else {
		refused.Text, refused.Kind = text(v[2]), text(v[3])
	}
	return time.Time{}, "", refused
}

// Begin notes that the submit may have been sent. It returns false if another replica owns the order, or the order has
// ended or was submitted before. The nonce identifies this submit, so that Begin may be repeated.
func (p *Pool) Begin(ctx context.Context, order, nonce string) (bool, error) {
	v, err := p.runScript(ctx, begin, []string{p.key("order", order)}, p.Replica, nonce)
	return err == nil && number(v[0]) == 1, err
}

// taskLife is how long a task id belongs to its order.
const taskLife = 24 * time.Hour

// Unanswered notes that the submit of an order got no clear answer. The order stays in the state Unknown for the time
// o.UnknownLife. The result is Stored or Gone.
func (p *Pool) Unanswered(ctx context.Context, o *Order, row string) (Outcome, error) {
	return p.Bought(ctx, o, "", row)
}

// Bought stores the task of an order. The result is Stored, Gone or RepeatedTask.
func (p *Pool) Bought(ctx context.Context, o *Order, task, row string) (Outcome, error) {
	v, err := p.runScript(ctx, bought,
		[]string{p.key("order", o.Name), p.key("task", o.Account, task), p.stats(o.ID), p.key("outbox", "ends"),
			p.key("brake", o.Key), p.key("deadlines"), p.key("permits", o.Account), p.key("inflight", o.ID)},
		o.Name, string(o.ID), p.Replica, task, taskLife.Milliseconds(), row, cmp.Or(o.UnknownLife, o.Life).Milliseconds())
	if err != nil {
		return "", err
	}
	return Outcome(text(v[0])), nil
}

// Outcome is the end of an order.
type Outcome string

// The ends of an order.
const (
	Solved        Outcome = "solved"
	Failed        Outcome = "failed"         // bought, and no token
	Lost          Outcome = "lost"           // bought, and the outcome is unknown
	Refused       Outcome = "refused"        // the service refused the submit
	BadParameters Outcome = "bad_parameters" // the service rejects the parameters
	Busy          Outcome = "busy"           // the service has no capacity
	Fault         Outcome = "fault"          // the account has a fault; see Pool.SetBrake
	Stopped       Outcome = "stopped"        // nothing was submitted
	Late          Outcome = "late"           // past the deadline: Stopped or Lost

	// Pool.End returns one of these instead of Solved if the token cannot be used.
	Repeated  Outcome = "repeated"  // the service gave the token before
	Discarded Outcome = "discarded" // the token came too late

	// Pool.Bought, Unanswered and End return these when the order does not end by the call.
	Stored       Outcome = "ok"            // the task, or that it is unknown
	Gone         Outcome = "gone"          // the order has ended
	Other        Outcome = "other"         // another replica owns the order
	RepeatedTask Outcome = "repeated_task" // the task belongs to another order
)

// End describes the end of an order.
type End struct {
	Outcome Outcome
	Anyone  bool // whether another replica may own the order: a callback, or past the deadline

	// These fields are set for a solved order.
	Provider, Value  string
	Extra            captcha.Extra
	Task             string
	Repeats          bool          // texts may repeat: a picture
	BornAfter        time.Duration // from the placing to the earliest time of the solve
	Lifetime, Margin time.Duration
	Lead             time.Duration // 0 = not counted

	Type   captcha.Type // by which the provider is compared with others; "" = there is no other
	Others int          // other providers that may get the next order of the identity

	Reason string // for another end
	Costs  bool   // the service charges for a failed order, or may still solve its task
	// Answer is sent to the pending caller of a guest if no other order is in flight for it.
	Answer *FailedError
	Row    string // JSON for the sink; "" = no sink
}

// End ends an order. It returns the outcome (Gone or Other if the call did not end the order), and the identity that
// may place the next order at the account.
func (p *Pool) End(ctx context.Context, o *Order, e *End) (outcome Outcome, next captcha.ID, err error) {
	token, value, answer, owner := "", "", "", p.Replica
	if e.Outcome == Solved {
		token = fmt.Sprintf("%s|%d|%s|%s", clean(e.Provider), o.Price, e.Extra, e.Value)
		if value = e.Value; e.Repeats {
			value = o.Name
		}
	}
	if e.Answer != nil {
		answer = e.Answer.stored()
	}
	if e.Anyone {
		owner = ""
	}
	keys := []string{p.key("order", o.Name), p.key("deadlines"), p.key("permits", o.Account), p.key("inflight", o.ID),
		p.key("tokens", o.ID), p.key("tickets", o.ID), p.key("brake", o.Key), p.key("brake", o.ID), p.key("queue", o.Account),
		p.stats(o.ID), p.key("outbox", "ends"), p.key("value", o.ID, digest(value)), p.key("token", o.Name),
		p.key("sale", o.Name)}
	args := []any{o.Name, owner, string(e.Outcome), e.BornAfter.Milliseconds(), e.Lifetime.Milliseconds(),
		e.Margin.Milliseconds(), token, e.Row, cut(e.Reason), answer, e.Lead.Milliseconds(), e.Task, bit(e.Costs),
		string(e.Type), e.Others}
	for _, b := range o.Budgets {
		keys = append(keys, p.key("solves", b.Scope))
		if b.HasMoney() {
			args = append(args, b.Scope)
		}
	}
	v, err := p.runScript(ctx, end, keys, args...)
	if err != nil {
		return "", "", err
	}
	if number(v[2]) == 1 {
		p.c.Changed(o.ID)
	}
	return Outcome(text(v[0])), captcha.ID(text(v[1])), nil
}
