-- Shared by every script of this folder: scripts.go puts this text in front of
-- theirs. The list of tokens is kept sorted by the moment of death, soonest
-- first; an element starts with that moment as 13 digits of Unix milliseconds.

-- Figures live on for 30 days after the last change.
local stats_ttl = 2592000000

-- without_days takes what begin_day notes out of figures, name, value, name, value, ...
local function without_days(figures)
  local rest = {}
  for i = 1, #figures, 2 do
    if not string.find(figures[i], '^day') then
      rest[#rest + 1] = figures[i]
      rest[#rest + 1] = figures[i + 1]
    end
  end
  return rest
end

-- begin_day notes the figures as they are at the first change of a UTC day, numbered from
-- 1970 on, so that those of each day can be told without counting them a second time.
-- Seven days and the one before are kept.
local function begin_day(stats)
  local today = math.floor(now_ms() / 86400000)
  if tonumber(redis.call('HGET', stats, 'day') or 0) >= today then
    return
  end
  local all = redis.call('HGETALL', stats)
  for i = 1, #all, 2 do
    local day = string.match(all[i], '^day:(%d+)$')
    if day and tonumber(day) < today - 7 then
      redis.call('HDEL', stats, all[i])
    end
  end
  redis.call('HSET', stats, 'day', ms(today), 'day:' .. ms(today), table.concat(without_days(all), ' '))
end

-- count adds to figures and keeps them for stats_ttl.
local function count(stats, figures)
  begin_day(stats)
  for name, value in pairs(figures) do
    if value ~= 0 then
      redis.call('HINCRBY', stats, name, ms(value))
    end
  end
  redis.call('PEXPIRE', stats, stats_ttl)
end

-- dies is when a token dies; nil for an element that is no token.
local function dies(element)
  return string.find(element, '^%d%d%d%d%d%d%d%d%d%d%d%d%d|%d+|[^|]*|[^|]*|[^|]*|')
    and tonumber(string.sub(element, 1, 13))
end

-- set_aside keeps what another program left where it cannot be, for whoever
-- looks for the cause, and counts it. Where even that has no room, it is dropped.
local function set_aside(junk, stats, value)
  redis.pcall('LPUSH', junk, value)
  redis.pcall('LTRIM', junk, 0, 19)
  redis.pcall('PEXPIRE', junk, 604800000)
  count(stats, {junk = 1})
end

-- first_at_least returns the index (from 0) of the first token that dies at
-- `moment` or later; the length of the list where there is none. What is no token
-- counts as dying with the one before it.
local function first_at_least(list, length, moment)
  local low, high = 0, length
  while low < high do
    local middle = math.floor((low + high) / 2)
    local at, death = middle, nil
    while at >= low and not death do
      death = dies(redis.call('LINDEX', list, at))
      at = at - 1
    end
    if not death or death < moment then
      low = middle + 1
    else
      high = at + 1
    end
  end
  return low
end

-- born_after reports whether an element was born after `moment`.
local function born_after(element, moment)
  return tonumber(string.match(element, '^%d+|(%d+)') or 0) > moment
end

-- drop_dead takes the tokens off the front that can no longer be handed out
-- and counts them; its work is what it drops. `moment` is now and the margin: where
-- the newest token was born later, Redis' clock was set back by more than the
-- margin, and nobody knows how old any of them is. `slack` is added to that alone.
local function drop_dead(list, stats, junk, moment, slack)
  local dropped = 0
  local newest = redis.call('LINDEX', list, -1)
  if newest and born_after(newest, moment + (slack or 0)) then
    dropped = redis.call('LLEN', list)
    redis.call('DEL', list)
  end
  while true do
    local head = redis.call('LINDEX', list, 0)
    local death = head and dies(head)
    if not head or (death and death >= moment) then
      break
    end
    redis.call('LPOP', list)
    if death then
      dropped = dropped + 1
    else
      set_aside(junk, stats, head)
    end
  end
  if dropped > 0 then
    count(stats, {expired = dropped})
  end
end

-- insert keeps the order. A landing is nearly always the newest, so the walk
-- back from the end is short.
local function insert(list, element)
  local moment = dies(element)
  local tail = redis.call('LINDEX', list, -1)
  local pivot
  if tail and (dies(tail) or math.huge) > moment then
    pivot = redis.call('LINDEX', list, first_at_least(list, redis.call('LLEN', list), moment))
  end
  if pivot then
    redis.call('LINSERT', list, 'BEFORE', pivot, element)
  else
    redis.call('RPUSH', list, element)
  end
  -- Not only as long as its tokens live: dead ones are counted when somebody
  -- looks, and the figures must balance also if that is much later.
  redis.call('PEXPIRE', list, stats_ttl)
end

-- live_tickets forgets the tickets of replicas that have not been heard of for
-- two seconds and returns how many are left.
local function live_tickets(tickets, seen, now)
  if redis.call('ZCARD', seen) == 0 then
    return 0
  end
  local silent = redis.call('ZRANGEBYSCORE', seen, '-inf', '(' .. ms(now - 2000))
  for _, ticket in ipairs(silent) do
    redis.call('ZREM', tickets, ticket)
    redis.call('ZREM', seen, ticket)
  end
  return redis.call('ZCARD', tickets)
end

-- rate_room is how often something may happen now that happens at most `limit` times
-- within `per` ms, and how long it takes until it may once more. It is exact: `times`
-- is the list of when it happened.
local function rate_room(times, now, limit, per)
  if limit <= 0 then
    return math.huge, per
  end
  local oldest = redis.call('LINDEX', times, 0)
  -- One in the future is of before Redis' clock was set back.
  while oldest and (tonumber(oldest) <= now - per or tonumber(oldest) > now) do
    redis.call('LPOP', times)
    oldest = redis.call('LINDEX', times, 0)
  end
  return limit - redis.call('LLEN', times), oldest and tonumber(oldest) + per - now or per
end

-- rate_use notes that it happened n times.
local function rate_use(times, now, n, limit, per)
  if limit <= 0 then
    return
  end
  for _ = 1, n do
    redis.call('RPUSH', times, ms(now))
  end
  redis.call('PEXPIRE', times, per)
end

-- counts is what place and look judge by: fresh, outliving, orders, waiting, ms
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
