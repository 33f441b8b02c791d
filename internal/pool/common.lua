-- Shared by every script of this folder: scripts.go puts this text in front of
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

-- count adds to figures and keeps them for stats_ttl.
local function count(stats, figures)
  for name, value in pairs(figures) do
    if value ~= 0 then
      redis.call('HINCRBY', stats, name, ms(value))
    end
  end
  redis.call('PEXPIRE', stats, stats_ttl)
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
