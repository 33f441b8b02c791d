-- Shared by every script of this folder: pool.Open puts this text in front of
-- theirs. The list of tokens is kept sorted by the moment of death, soonest
-- first; an element starts with that moment as 13 digits of Unix milliseconds.

-- Figures live on for 30 days after the last change.
local stats_ttl = 2592000000

local function now_ms()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

local function ms(n)
  return string.format('%.0f', n)
end

local function dies(element)
  return tonumber(string.sub(element, 1, 13))
end

-- first_at_least returns the index (from 0) of the first token that dies at
-- `moment` or later; the length of the list where there is none.
local function first_at_least(list, length, moment)
  local low, high = 0, length
  while low < high do
    local middle = math.floor((low + high) / 2)
    if dies(redis.call('LINDEX', list, middle)) < moment then
      low = middle + 1
    else
      high = middle
    end
  end
  return low
end

-- drop_dead takes the tokens off the front that can no longer be handed out
-- and counts them; its work is what it drops.
local function drop_dead(list, stats, moment)
  local dropped = 0
  while true do
    local head = redis.call('LINDEX', list, 0)
    if not head or dies(head) >= moment then
      break
    end
    redis.call('LPOP', list)
    dropped = dropped + 1
  end
  if dropped > 0 then
    redis.call('HINCRBY', stats, 'expired', dropped)
    redis.call('PEXPIRE', stats, stats_ttl)
  end
end

-- insert keeps the order. A landing is nearly always the newest, so the walk
-- back from the end is short.
local function insert(list, element)
  local moment = dies(element)
  local tail = redis.call('LINDEX', list, -1)
  if not tail or dies(tail) <= moment then
    redis.call('RPUSH', list, element)
  else
    local length = redis.call('LLEN', list)
    local pivot = redis.call('LINDEX', list, first_at_least(list, length, moment))
    redis.call('LINSERT', list, 'BEFORE', pivot, element)
  end
  -- Not only as long as its tokens live: dead ones are counted when somebody
  -- looks, and the figures must balance also if that is much later.
  redis.call('PEXPIRE', list, stats_ttl)
end

-- live_tickets forgets the tickets of replicas that have not been heard of for
-- two seconds and returns how many are left.
local function live_tickets(tickets, seen, now)
  if redis.call('EXISTS', seen) == 0 then
    return 0
  end
  local silent = redis.call('ZRANGEBYSCORE', seen, '-inf', '(' .. ms(now - 2000))
  for _, ticket in ipairs(silent) do
    redis.call('ZREM', tickets, ticket)
    redis.call('ZREM', seen, ticket)
  end
  return redis.call('ZCARD', tickets)
end

-- entry_of reads an order's line of the journal; nil where there is none.
local function entry_of(journal, order)
  local placed, state, owner, unsolved, price, task, facts = string.match(
    redis.call('HGET', journal, order) or '', '^(%d+)|(%a)|([^|]*)|(%d+)|(%d+)|([^|]*)|(.*)$')
  if not placed then
    return nil
  end
  return {placed = tonumber(placed), state = state, owner = owner,
    unsolved = tonumber(unsolved), price = tonumber(price), task = task, facts = facts}
end

-- write_entry is the inverse.
local function write_entry(journal, order, e)
  redis.call('HSET', journal, order, table.concat({ms(e.placed), e.state, e.owner,
    ms(e.unsolved), ms(e.price), e.task, e.facts}, '|'))
end

-- count adds to figures and keeps them for stats_ttl.
local function count(stats, figures)
  for name, value in pairs(figures) do
    if value ~= 0 then
      redis.call('HINCRBY', stats, name, ms(value))
    end
  end
  redis.call('PEXPIRE', stats, stats_ttl)
end

-- is_bought reports whether an order in this state was counted as bought.
local function is_bought(state)
  return state == 'b' or state == 'u'
end

-- remove takes an order out of everything but the stock.
local function remove(orders, journal, leases, order)
  redis.call('ZREM', orders, order)
  redis.call('HDEL', journal, order)
  redis.call('ZREM', leases, order)
end

-- purge_orders forgets orders that nobody settled in their time. Those that may
-- have been bought count as lost; an intent was not, and its budget comes back.
local function purge_orders(orders, journal, leases, stats, spend, now)
  for _, order in ipairs(redis.call('ZRANGEBYSCORE', orders, '-inf', ms(now))) do
    local e = entry_of(journal, order)
    remove(orders, journal, leases, order)
    if e and e.state == 'i' then
      redis.call('ZREM', spend, order)
    elseif e then
      count(stats, {lost = 1, bought = is_bought(e.state) and 0 or 1, spent = e.price})
    end
  end
end

local hour, day = 3600000, 86400000

-- window_wait says how long it takes until a sliding window of a budget has room
-- for one more, in ms; 0 = it has now.
local function window_wait(spend, now, window, limit)
  if limit <= 0 then
    return 0
  end
  local from = '(' .. ms(now - window)
  local used = redis.call('ZCOUNT', spend, from, '+inf')
  if used < limit then
    return 0
  end
  -- Where the limit was lowered, more than the oldest must leave first.
  local blocking = redis.call('ZRANGEBYSCORE', spend, from, '+inf', 'WITHSCORES', 'LIMIT', used - limit, 1)
  return math.max(1, tonumber(blocking[2]) + window - now)
end

-- budget_wait is the longer of both windows' waits.
local function budget_wait(spend, now, per_hour, per_day)
  redis.call('ZREMRANGEBYSCORE', spend, '-inf', ms(now - day))
  return math.max(window_wait(spend, now, hour, per_hour), window_wait(spend, now, day, per_day))
end

-- book writes an order into a budget.
local function book(spend, now, order)
  redis.call('ZADD', spend, 'NX', ms(now), order)
  redis.call('PEXPIRE', spend, day + 60000)
end

-- counts is what place and look answer: fresh, outliving, orders, waiting, ms
-- until the first fresh token meets its margin, ms until the first outliving
-- one stops outliving (-1 where there is none).
local function counts(list, orders, tickets, seen, now, margin, lead)
  local length = redis.call('LLEN', list)
  local rest = first_at_least(list, length, now + margin + lead + 1)
  local expiry, look = -1, -1
  if length > 0 then
    expiry = math.max(0, dies(redis.call('LINDEX', list, 0)) - margin - now)
  end
  if rest < length then
    look = math.max(0, dies(redis.call('LINDEX', list, rest)) - margin - lead - now)
  end
  return {length, length - rest, redis.call('ZCARD', orders),
    live_tickets(tickets, seen, now), expiry, look}
end
