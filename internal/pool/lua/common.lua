-- Shared: by every script of this folder.
--
-- A token is a list element: death|birth|… with both moments as 13 digits of Unix ms. The
-- list of tokens is sorted by death, soonest first.

-- Figures expire 30 days after their last change.
local stats_ttl = 2592000000

-- without_days returns figures, as a list of names and values, without the notes of begin_day.
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

-- begin_day copies the figures at the first change of a UTC day into the field day:N, N being
-- the days since 1970. The totals of a day follow from two such copies; eight are kept.
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

-- add_figures adds to figures and extends their life to stats_ttl.
local function add_figures(stats, figures)
  begin_day(stats)
  for name, value in pairs(figures) do
    if value ~= 0 then
      redis.call('HINCRBY', stats, name, ms(value))
    end
  end
  redis.call('PEXPIRE', stats, stats_ttl)
end

-- dies returns when a token dies; nil if the element is not a token.
local function dies(element)
  return string.find(element, '^%d%d%d%d%d%d%d%d%d%d%d%d%d|%d+|[^|]*|[^|]*|[^|]*|')
    and tonumber(string.sub(element, 1, 13))
end

-- set_aside counts a value of another program and keeps the latest 20 for the operator,
-- unless Redis has no memory for it.
local function set_aside(junk, stats, value)
  redis.pcall('LPUSH', junk, value)
  redis.pcall('LTRIM', junk, 0, 19)
  redis.pcall('PEXPIRE', junk, 604800000)
  add_figures(stats, {junk = 1})
end

-- first_at_least returns the index (from 0) of the first token that dies at `moment` or
-- later; the length of the list if there is none. An element that is not a token counts as
-- dying with the one before it.
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

-- drop_dead removes the tokens that die before `moment` (now + margin), and counts them. If the
-- newest token was born after `moment` + `slack`, Redis' clock was set back by more than the
-- margin: the age of every token is unknown, and all are removed.
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
    add_figures(stats, {expired = dropped})
  end
end

-- insert adds a token to the sorted list. It is nearly always the newest.
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
  -- Longer than its tokens: the next look counts the expired ones, however late it comes.
  redis.call('PEXPIRE', list, stats_ttl)
end

-- live_tickets removes the tickets of replicas that were silent for two seconds and returns the
-- number of the others. A ticket that was last seen in the future is from before Redis' clock was
-- set back, so its age is unknown, and it is removed. A live replica shows the ticket again, at its
-- old place.
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

-- rate_room returns how many events the rate of `limit` within `per` ms allows now, and the
-- ms until it allows one more. `times` lists the moments of the recorded events.
local function rate_room(times, now, limit, per)
  if limit <= 0 then
    return math.huge, per
  end
  local oldest = redis.call('LINDEX', times, 0)
  -- A moment in the future was recorded before Redis' clock was set back.
  while oldest and (tonumber(oldest) <= now - per or tonumber(oldest) > now) do
    redis.call('LPOP', times)
    oldest = redis.call('LINDEX', times, 0)
  end
  return limit - redis.call('LLEN', times), oldest and tonumber(oldest) + per - now or per
end

-- rate_use records n events.
local function rate_use(times, now, n, limit, per)
  if limit <= 0 then
    return
  end
  for _ = 1, n do
    redis.call('RPUSH', times, ms(now))
  end
  redis.call('PEXPIRE', times, per)
end
