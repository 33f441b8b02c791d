package pool

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/backoff"
	"poold/internal/redisdb"
)

// head has the code that scripts share. In it, @ stands for the hash tag, and DEAD for the ms after which a silent
// replica is dead. NOTED stands for the names of the counters in periods:ID, and ROWS for the maximum length of a
// stream of the outbox.
const head = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)

-- counter_id returns the ID under which the counters of an identity are kept. All guests share one set of counters.
local function counter_id(id) return string.sub(id, 1, 6) == 'guest-' and 'guests' or id end

-- keep adds an entry at the front of a comma-separated list in a field of a hash. The list keeps the newest n entries.
local function keep(key, field, entry, n)
  local list = {entry}
  for old in string.gmatch(redis.call('HGET', key, field) or '', '[^,]+') do
    if #list < n then list[#list + 1] = old end
  end
  redis.call('HSET', key, field, table.concat(list, ','))
end

-- count adds to a counter of an identity, in total and for the present minute. Before the first event of a UTC hour or
-- day it copies the counters to periods:ID.
local minutely = {hits = true, waited = true, missed = true, left = true, bought = true, solved = true}
local function count(id, name, n)
  id = counter_id(id)
  local stats, hour, first = '@stats:' .. id, math.floor(now / 3600000), true
  if minutely[name] then
    local minutes = '@minutes:' .. id .. ':' .. hour
    first = redis.call('HINCRBY', minutes, name .. math.floor(now / 60000) % 60, n) == n
    if first then redis.call('PEXPIRE', minutes, 7200000) end
  end
  local last = first and tonumber(redis.call('HGET', stats, 'hour') or 0)
  if first and last < hour then
    local values = redis.call('HMGET', stats, NOTED)
    for i = 1, #values do values[i] = values[i] or 0 end
    local text = hour .. '|' .. table.concat(values, '|')
    keep('@periods:' .. id, 'hours', text, 25)
    if math.floor(last / 24) < math.floor(hour / 24) then keep('@periods:' .. id, 'days', text, 8) end
    redis.call('PEXPIRE', '@periods:' .. id, 30 * 86400000)
    redis.call('HSET', stats, 'hour', hour)
    redis.call('PEXPIRE', stats, 30 * 86400000)
  end
  redis.call('HINCRBY', stats, name, n)
end

-- tell appends a row to a stream of the outbox. If the stream is full, the row is dropped and counted.
local function tell(stream, ...)
  if redis.call('XLEN', '@outbox:' .. stream) < ROWS then
    redis.call('XADD', '@outbox:' .. stream, '*', 'at', now, ...)
  else
    redis.call('HINCRBY', '@outbox:dropped', stream, 1)
  end
end

-- fail ends a ticket with an answer. A waiting caller gets the answer at once, and the client of a task reads it with
-- its next poll.
local function fail(id, ticket, answer)
  local replica, call = string.match(ticket, '|([^|]*)|(.*)$')
  redis.call('ZREM', '@tickets:' .. id, ticket)
  redis.call('SET', '@reply:' .. call, 'failed|||' .. answer, 'PX', replica == '' and 900000 or 10000)
  count(id, 'missed', 1)
  if replica ~= '' then redis.pcall('PUBLISH', '@wake:' .. replica, call) end
end

-- leading returns the number before the first |.
local function leading(element) return tonumber(string.match(element, '^%d+')) end

-- live reports whether the replica of a ticket lives. The ticket of a client task names no replica and always
-- counts as live.
local alive = {}
local function live(ticket)
  local r = string.match(ticket, '|([^|]*)|')
  if alive[r] == nil then alive[r] = r == '' or tonumber(redis.call('ZSCORE', '@replicas', r) or 0) > now - DEAD end
  return alive[r]
end

-- bury removes tickets of dead replicas, and of tasks that no client can poll any more, because tickets count as
-- demand. It returns the number of remaining tickets.
local function bury(id)
  local oldest = redis.call('ZRANGE', '@tickets:' .. id, 0, 99, 'WITHSCORES')
  for i = 1, #oldest, 2 do
    if not live(oldest[i]) or tonumber(oldest[i + 1]) < (now - 900000) * 1000 then
      redis.call('ZREM', '@tickets:' .. id, oldest[i])
    end
  end
  return redis.call('ZCARD', '@tickets:' .. id)
end

-- assign matches tokens to live tickets, the oldest ticket first. Each ticket gets the token that expires first among
-- those that live long enough for it. The function returns the list element for the caller with the ticket own, and the
-- earlier tickets that have a token.
local function assign(id, own, need)
  local stock, used, served = redis.call('LRANGE', '@tokens:' .. id, 0, -1), {}, {}
  if #stock == 0 then return nil, served end
  local function first(life)
    for i, element in ipairs(stock) do
      if not used[i] and leading(element) >= now + life then
        used[i] = true
        return element
      end
    end
  end
  local from, tickets = 0
  repeat -- in parts: most callers of a long queue are behind the last token
    tickets = redis.call('ZRANGE', '@tickets:' .. id, from, from + 31)
    for _, ticket in ipairs(tickets) do
      if ticket == own or #served == #stock then return own and first(need), served end
      from = from + 1
      if not live(ticket) then
        from = from - redis.call('ZREM', '@tickets:' .. id, ticket)
      elseif first(leading(ticket)) then
        served[#served + 1] = ticket
      end
    end
  until #tickets < 32
  return own and first(need), served
end

-- expire removes the tokens whose life ends before the given moment, and returns the first remaining one. If the token
-- for a client's task expired before the client read it, the task ends with an error, because its ticket must not cause
-- another purchase. The task goes on if another ready token can serve it.
local function expire(id, moment)
  local list, n = '@tokens:' .. id, 0
  local first = redis.call('LINDEX', list, 0)
  while first and leading(first) < moment do
    redis.call('LPOP', list)
    n, first = n + 1, redis.call('LINDEX', list, 0)
  end
  if n == 0 then return first end
  count(id, 'expired', n)
  local _, served = assign(id)
  for _, ticket in ipairs(served) do served[ticket] = true end
  for _, ticket in ipairs(redis.call('ZRANGE', '@tickets:' .. id, 0, -1)) do
    if n > 0 and string.find(ticket, '||', 1, true) and not served[ticket] then
      n = n - 1
      fail(id, ticket, '{"reason":"the token expired before the task was read"}')
    end
  end
  return first
end

-- wake tells the callers for whom a token is ready to repeat their take.
local function wake(id)
  if redis.call('EXISTS', '@tickets:' .. id) == 0 then return end
  local _, served = assign(id)
  for _, ticket in ipairs(served) do
    local replica, call = string.match(ticket, '|([^|]*)|(.*)$')
    if replica ~= '' then redis.pcall('PUBLISH', '@wake:' .. replica, call) end
  end
end

-- soon makes a decision due in 2 s. The replica that ran the script decides at once; the entry is for the case that it
-- dies.
local function soon(id) redis.call('ZADD', '@due', 'LT', now + 2000, id) end

-- date returns the UTC date of a moment in the years 2000 to 2099. Inside, it counts years from March, so that a leap
-- day is the last day of a year.
local function date(moment)
  local days = math.floor(moment / 86400000) - 11017
  local year = math.floor((4 * days + 3) / 1461)
  local day = days - math.floor(1461 * year / 4)
  local month = math.floor((5 * day + 2) / 153)
  return string.format('%d-%02d-%02d', 2000 + year + math.floor((month + 2) / 12), (month + 2) % 12 + 1,
    day - math.floor((153 * month + 2) / 5) + 1)
end

-- micros converts a price from billionths to millionths, rounded up. An unknown price gives 0.
local function micros(price) return math.ceil(math.max(0, tonumber(price)) / 1000) end

-- charge adds an amount in millionths to the money of a scope, for the UTC day of a moment.
local function charge(scope, moment, amount)
  if amount == 0 then return end
  local month, day = string.match(date(moment), '^(.*)-(.*)$')
  redis.call('HINCRBY', '@money:' .. scope .. ':' .. month, day, amount)
  redis.call('PEXPIRE', '@money:' .. scope .. ':' .. month, 40 * 86400000)
end

-- plain formats an amount in millionths as a decimal number, such as 4.99 or 0.00001.
local function plain(amount)
  return (string.gsub(string.gsub(string.format('%.6f', amount / 1e6), '0+$', ''), '%.$', ''))
end

-- overspent checks whether the money limits of a scope leave room for an amount, and returns nil if they do. Else it
-- returns the use of the exceeded limit as a text, and when the next UTC day or month begins.
local function overspent(scope, amount, per_day, per_month)
  local month, day = string.match(date(now), '^(.*)-(.*)$')
  local key, opens = '@money:' .. scope .. ':' .. month, now - now % 86400000 + 86400000
  for i, limit in ipairs({tonumber(per_month), tonumber(per_day)}) do -- a month ends last
    local sum, sums = 0, limit > 0 and redis.call('HGETALL', key) or {}
    for j = 1, #sums, 2 do
      if i == 1 or sums[j] == day then sum = sum + sums[j + 1] end
    end
    if limit > 0 and sum + amount > limit then
      while i == 1 and string.sub(date(opens), 1, 7) == month do opens = opens + 86400000 end
      return plain(sum) .. ' of ' .. plain(limit) .. (i == 1 and ' in this UTC month' or ' on this UTC day'), opens
    end
  end
end

-- turn takes the first identity from the queue of an obstacle, and makes a decision about this identity due in 2 s. If
-- the identity must wait again within 10 s, it keeps its place.
local function turn(obstacle)
  local first = redis.call('ZPOPMIN', '@queue:' .. obstacle)
  if not first[1] then return '' end
  redis.call('SET', '@turn:' .. first[1], first[2], 'PX', 10000)
  soon(first[1])
  return first[1]
end

-- prove ends the brake of an account's key, because a call that was sent at the given moment worked.
local function prove(brake, account, moment)
  redis.call('DEL', brake)
  redis.call('HSET', brake, 'up', moment)
  redis.call('PEXPIRE', brake, 60000)
  redis.call('ZADD', '@obstacles', now, account)
end

-- tally adds results to the exponentially weighted sums of an account and a type of CAPTCHA. A sum falls to 1/e in an
-- hour. Besides, every 40 orders let the sums of orders fall to 1/e, and every 40 reports the sums of reports.
local function tally(account, captcha_type, kind, adds)
  local key = '@outcomes:' .. account .. ':' .. captcha_type
  local fade = math.exp(math.min(0, (redis.call('HGET', key, 'at') or now) - now) / 3600000)
  local sums = redis.call('HGETALL', key)
  for i = 1, #sums, 2 do
    local share = string.sub(sums[i], 1, #kind) == kind and math.exp(-1 / 40) or 1
    adds[sums[i]] = (adds[sums[i]] or 0) + sums[i + 1] * fade * share
  end
  adds.at = now
  for name, sum in pairs(adds) do redis.call('HSET', key, name, string.format('%.6f', sum)) end
  redis.call('PEXPIRE', key, 86400000)
end

-- insert adds a token to the list that is sorted by expiry. The search begins at the end, where a new token nearly
-- always belongs. The function returns true if the token is the only one.
local function insert(id, element)
  local list, moment = '@tokens:' .. id, leading(element)
  local last = redis.call('LINDEX', list, -1)
  if not last or leading(last) <= moment then
    redis.call('RPUSH', list, element)
  else
    for _, other in ipairs(redis.call('LRANGE', list, 0, -1)) do
      if leading(other) > moment then
        redis.call('LINSERT', list, 'BEFORE', other, element)
        break
      end
    end
  end
  redis.call('PEXPIRE', list, 30 * 86400000)
  return not last
end

-- coming returns how many orders in flight of an identity count as stock. Orders at stuck providers do not count; the
-- list of these providers has the form ' a b '.
local function coming(id, stuck)
  local n = redis.call('ZCARD', '@inflight:' .. id)
  for _, order in ipairs(n > 0 and stuck ~= '' and redis.call('ZRANGE', '@inflight:' .. id, 0, -1) or {}) do
    local account = redis.call('HGET', '@order:' .. order, 'account') or ''
    if string.find(stuck, ' ' .. account .. ' ', 1, true) then n = n - 1 end
  end
  return n
end

-- ageing returns how many tokens expire before the given moment, how many expire later, and the first of the later
-- ones.
local function ageing(id, moment)
  local list, n, from = '@tokens:' .. id, 0, 0
  repeat
    local part = redis.call('LRANGE', list, from, from + 31)
    for _, element in ipairs(part) do
      if leading(element) >= moment then
        return n, (#part < 32 and from + #part or redis.call('LLEN', list)) - n, element
      end
      n = n + 1
    end
    from = from + 32
  until #part < 32
  return n, 0
end
`

// A script is one whole step in Redis. Its text has the parts of head that it needs, and then the body. A body may
// build further keys itself ('@…'), because all keys have one hash tag. KEYS lists all that are known before, also
// those that head or the body builds again; the first one selects the node. Tables of tests name each of ARGV as the
// comment at the beginning of the body does.
type script struct{ name, body, text string }

// scripts lists all scripts.
var scripts []*script

func newScript(name, body string) *script {
	s := &script{name: name, body: body, text: link(head, body)}
	scripts = append(scripts, s)
	return s
}

// declared matches the declaration of a function in head.
var declared = regexp.MustCompile(`(?m)^local function (\w+)`)

// link returns the text of a script: the first part of head, the functions that the body calls, and the body. It leaves
// out other functions, because Lua would spend time on their declarations in each run. In head, a blank line ends each
// function, so a function must not contain one.
func link(head, body string) string {
	parts := strings.Split(head, "\n\n")
	for _, part := range slices.Backward(parts[1:]) {
		if name := declared.FindStringSubmatch(part)[1]; regexp.MustCompile(`\b` + name + `\(`).MatchString(body) {
			body = part + "\n\n" + body
		}
	}
	return parts[0] + "\n\n" + body
}

// ErrDown means that Redis did not answer in time, or cannot write; redisdb.Reason says why.
var ErrDown = redisdb.ErrDown

// passing lists the error replies of Redis after which a repetition of the call may succeed.
var passing = []string{"LOADING", "TRYAGAIN", "CLUSTERDOWN", "MOVED", "ASK", "READONLY", "MASTERDOWN", "BUSY"}

// mayPass reports whether a failed call may be repeated: Redis did not reply, or gave one of the replies in passing.
func mayPass(err error) bool {
	if reply := redis.Error(nil); !errors.As(err, &reply) {
		return !errors.Is(err, redis.ErrClosed)
	}
	return slices.ContainsFunc(passing, func(prefix string) bool { return redis.HasErrorPrefix(err, prefix) })
}

// callLimit limits a call whose context has no deadline. Within this time a caller learns that Redis is away.
const callLimit = time.Second

// bounded returns a context that has a deadline: its own one, or callLimit from now.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, is := ctx.Deadline(); is {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, callLimit)
}

// lateAfter returns the deadline of a context as Unix ms on Redis' clock. While Redis' clock is unknown, the result is
// a time in the far future. The script take refuses to run after its deadline, because Redis may have hung while the
// caller went away.
func (p *Pool) lateAfter(ctx context.Context) int64 {
	deadline, is := ctx.Deadline()
	ahead := p.ahead.Load()
	if !is || ahead == nil {
		return math.MaxInt64
	}
	return deadline.Add(*ahead).UnixMilli()
}

// runScript runs a script. If the failure may pass, it repeats the script until ctx ends, in addition to the
// repetitions of go-redis.
func (p *Pool) runScript(ctx context.Context, s *script, keys []string, args ...any) ([]any, error) {
	ctx, stop := bounded(ctx)
	defer stop()
	db := p.c.Slow
	if s == take || s == cancel || s == beat {
		db = p.c.Fast
	}
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		if err := p.c.Away(); err != nil { // known to be away: the call does not wait for the limit
			return nil, err
		}
		reply, err := p.compiled[s].Run(ctx, db, keys, args...).Slice()
		switch {
		case err == nil:
			return reply, nil
		case ctx.Err() == nil && !mayPass(err):
			return nil, fmt.Errorf("redis: %s: %w", s.name, redisdb.Down(err))
		}
		select {
		case <-ctx.Done():
			return nil, redisdb.Down(fmt.Errorf("%s: %w", s.name, err))
		case <-time.After(backoff.Around(pause, 0.5)):
		}
	}
}

func text(v any) string { s, _ := v.(string); return s }

func texts(v any) (list []string) {
	items, _ := v.([]any)
	for _, item := range items {
		list = append(list, text(item))
	}
	return list
}

func number(v any) int64 { n, _ := v.(int64); return n }

func span(v any) time.Duration { return time.Duration(number(v)) * time.Millisecond }

func bit(is bool) int {
	if is {
		return 1
	}
	return 0
}

// millis reads Unix ms.
func millis(s string) time.Time {
	n, _ := strconv.ParseInt(s, 10, 64)
	return time.UnixMilli(n).UTC()
}
