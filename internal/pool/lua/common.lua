-- Shared: constants and functions for every script of this folder.
--
-- A token is a list element that begins with death|birth|, both in Unix ms with 13 digits. The
-- list of tokens is sorted by death, earliest first.

-- Figures expire 30 days after their last change.
local stats_ttl = 2592000000

-- without_days removes the fields of begin_day from a flat list of names and values.
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

-- begin_day copies the figures into the field day:N at the first change of a UTC day. N is the number
-- of days since 1970. The totals of a day are the difference of two such copies. Redis keeps eight
-- copies.
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

-- add_figures adds values to the counters of the hash `stats` and extends the life of the hash.
local function add_figures(stats, figures)
  begin_day(stats)
  for name, value in pairs(figures) do
    if value ~= 0 then
      redis.call('HINCRBY', stats, name, ms(value))
    end
  end
  redis.call('PEXPIRE', stats, stats_ttl)
end

-- death_of returns the time of death of a token in Unix ms.
local function death_of(element)
  return tonumber(string.sub(element, 1, 13))
end

-- first_at_least returns the index (from 0) of the first token that dies at the time `moment` or
-- later. If there is no such token, the result is the length of the list.
local function first_at_least(list, length, moment)
  local low, high = 0, length
  while low < high do
    local middle = math.floor((low + high) / 2)
    if death_of(redis.call('LINDEX', list, middle)) < moment then
      low = middle + 1
    else
      high = middle
    end
  end
  return low
end

-- born_after reports whether the birth of a token is after the time `moment`.
local function born_after(element, moment)
  return tonumber(string.match(element, '^%d+|(%d+)')) > moment
end

-- drop_dead removes the tokens that die before the time `moment` (now + margin), and counts them as
-- expired. If the newest token was born after `moment` + `slack`, Redis' clock was set back by more
-- than the margin. The age of every token is then unknown, so drop_dead removes all tokens.
local function drop_dead(list, stats, moment, slack)
  local dropped = 0
  local newest = redis.call('LINDEX', list, -1)
  if newest and born_after(newest, moment + (slack or 0)) then
    dropped = redis.call('LLEN', list)
    redis.call('DEL', list)
  end
  local head = redis.call('LINDEX', list, 0)
  while head and death_of(head) < moment do
    redis.call('LPOP', list)
    dropped = dropped + 1
    head = redis.call('LINDEX', list, 0)
  end
  if dropped > 0 then
    add_figures(stats, {expired = dropped})
  end
end

-- insert adds a token to the sorted list. The token nearly always belongs at the end.
local function insert(list, element)
  local moment = death_of(element)
  local tail = redis.call('LINDEX', list, -1)
  local pivot
  if tail and death_of(tail) > moment then
    pivot = redis.call('LINDEX', list, first_at_least(list, redis.call('LLEN', list), moment))
  end
  if pivot then
    redis.call('LINSERT', list, 'BEFORE', pivot, element)
  else
    redis.call('RPUSH', list, element)
  end
  -- The list lives longer than its tokens, so that a late look still counts the expired tokens.
  redis.call('PEXPIRE', list, stats_ttl)
end

-- live_tickets removes the tickets that their replicas have not refreshed for two seconds, and
-- returns the number of the remaining tickets. The function also removes tickets whose last refresh
-- is in the future: Redis' clock was set back, so the age of such a ticket is unknown. A live replica
-- adds the ticket again, at its old place in the queue.
local function live_tickets(tickets, seen, now)
  if redis.call('ZCARD', seen) == 0 then
    return 0
  end
  local silent = redis.call('ZRANGEBYSCORE', seen, '-inf', '(' .. ms(now - 2000))
  if #silent == 0 then
    silent = redis.call('ZRANGEBYSCORE', seen, '(' .. ms(now + clocks), '+inf')
  end
  for _, ticket in ipairs(silent) do
    redis.call('ZREM', tickets, ticket)
    redis.call('ZREM', seen, ticket)
  end
  return redis.call('ZCARD', tickets)
end

-- rate_room returns how many events a rate of `limit` events within `per` ms allows now, and the ms
-- until the rate allows another event. The list `times` has the times of the recorded events.
local function rate_room(times, now, limit, per)
  if limit <= 0 then
    return math.huge, per
  end
  local oldest = redis.call('LINDEX', times, 0)
  -- A time in the future was recorded before Redis' clock was set back.
  while oldest and (tonumber(oldest) <= now - per or tonumber(oldest) > now) do
    redis.call('LPOP', times)
    oldest = redis.call('LINDEX', times, 0)
  end
  return limit - redis.call('LLEN', times), oldest and tonumber(oldest) + per - now or per
end

-- rate_use records n events at the time `now`.
local function rate_use(times, now, n, limit, per)
  if limit <= 0 then
    return
  end
  for _ = 1, n do
    redis.call('RPUSH', times, ms(now))
  end
  redis.call('PEXPIRE', times, per)
end
