-- Hands out tokens to the callers of one replica that asked since its last call.
--
-- KEYS  1 tokens  2 tickets  3 seen  4 stats  5 receipt of this replica's last
--       call  6 rate window  7 junk  8.. receipts by Idempotency-Key
-- ARGV  1 number of this call (grows by replica)   2 life of the receipt, ms
--       3 margin, ms   4 tokens allowed per window (0 = no limit)  5 window, ms
--       6 most tickets  7 plain callers: no wait, no min_ttl, no key
--       8 leavers L, then L groups of three: ticket, 1 if its wait ran out (a
--         miss), holder ('' = no other replica can hold this ticket)
--       9 askers A, then A groups of six: ticket ('' = does not wait),
--         arrival ('' = asks for the first time), life needed in ms, index of
--         its receipt among KEYS (0 = none), the min_ttl it asked for in ms,
--         holder, as above
-- Answer: now in ms, ms until the rate allows the next one (0 = it refused nobody), one answer per asker
--       (T token, R token repeated, W arrival = holds a ticket, V arrival
--       = holds one and only the rate keeps it from a token, E none, F too many
--       wait, C conflict, L rate), then tokens for the plain callers.
--       'stale' for a call that is older than the last one.
local call = tonumber(ARGV[1])
local known = tonumber(redis.call('LINDEX', KEYS[5], 0) or '')
if known and known >= call then
  return known == call and redis.call('LRANGE', KEYS[5], 1, -1) or {'stale'}
end

local now = now_ms()
local margin = tonumber(ARGV[3])
local plain = tonumber(ARGV[7])
local list, tickets, seen, stats, junk = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[7]
local requests, hits, waited, misses, replays = 0, 0, 0, 0, 0
local limited = false

writable('HDEL', stats)
drop_dead(list, stats, junk, now + margin)
local waiting = live_tickets(tickets, seen, now)

-- A ticket of an Idempotency-Key can be held by several replicas. Beside the
-- ticket itself, which other versions look at, each of them is in `seen` as
-- "ticket|replica".
local function held_elsewhere(ticket)
  for _, name in ipairs(redis.call('ZRANGE', seen, 0, -1)) do
    if string.sub(name, 1, #ticket + 1) == ticket .. '|' then
      return true
    end
  end
  return false
end
local function give_up(ticket)
  waiting = waiting - redis.call('ZREM', tickets, ticket)
  redis.call('ZREM', seen, ticket)
end

local at = 9
for _ = 1, tonumber(ARGV[8]) do
  local ticket, holder = ARGV[at], ARGV[at + 2]
  if holder ~= '' then
    redis.call('ZREM', seen, holder)
  end
  if holder == '' or not held_elsewhere(ticket) then
    give_up(ticket)
  end
  misses = misses + tonumber(ARGV[at + 1])
  at = at + 3
end

-- The rate is an exact sliding window: the times of the last hand-outs.
local limit, window = tonumber(ARGV[4]), tonumber(ARGV[5])
local allowed, rate_wait = math.huge, window
if limit > 0 then
  local oldest = redis.call('LINDEX', KEYS[6], 0)
  -- One in the future is of before Redis' clock was set back.
  while oldest and (tonumber(oldest) <= now - window or tonumber(oldest) > now) do
    redis.call('LPOP', KEYS[6])
    oldest = redis.call('LINDEX', KEYS[6], 0)
  end
  allowed = limit - redis.call('LLEN', KEYS[6])
  if oldest then
    rate_wait = tonumber(oldest) + window - now
  end
end

-- Tokens are given away by index first and leave the list together at the end.
local length = redis.call('LLEN', list)
local used, taken, first_free = {}, {}, 0
local function use(index)
  used[index] = true
  while used[first_free] do
    first_free = first_free + 1
  end
end
-- fit finds the index and the element of a token with so much life; what is no
-- token is taken out on the way.
local function fit(need)
  local index = first_free
  if need > margin then
    index = math.max(index, first_at_least(list, length, now + need))
  end
  while index < length do
    if not used[index] then
      local element = redis.call('LINDEX', list, index)
      if dies(element) then
        return index, element
      end
      use(index)
      set_aside(junk, stats, element)
      taken[#taken + 1] = element
    end
    index = index + 1
  end
end

local askers = {}
local askers_count = tonumber(ARGV[at])
at = at + 1
local by_ticket, receipts = {}, {}
-- show says that the asker's replica lives, and keeps its place in the queue.
local function show(asker)
  by_ticket[asker.ticket] = asker
  -- A replica that was silent for a while gets its old place back.
  waiting = waiting + redis.call('ZADD', tickets, 'NX', asker.arrival, asker.ticket)
  redis.call('ZADD', seen, ms(now), asker.ticket)
  if asker.holder ~= '' then
    redis.call('ZADD', seen, ms(now), asker.holder)
  end
end
if askers_count > 0 then
  redis.call('ZCARD', tickets) -- of another type it must fail before anything is given away
end
for i = 1, askers_count do
  local asker = {ticket = ARGV[at], arrival = ARGV[at + 1], need = tonumber(ARGV[at + 2]),
    receipt = KEYS[tonumber(ARGV[at + 3])], min_ttl = ARGV[at + 4], holder = ARGV[at + 5]}
  askers[i] = asker
  at = at + 6
  asker.new = asker.arrival == ''
  if asker.receipt and receipts[asker.receipt] == nil then
    receipts[asker.receipt] = redis.call('GET', asker.receipt)
  end
end
for _, asker in ipairs(askers) do
  if asker.new then
    requests = requests + 1
    local held = asker.holder ~= '' and redis.call('ZSCORE', tickets, asker.ticket)
    if held then
      asker.arrival = ms(tonumber(held)) -- another replica's caller came first
    end
  end
  if asker.arrival ~= '' then
    show(asker)
  end
end

local function leave(asker)
  if asker.arrival ~= '' then
    give_up(asker.ticket)
    if asker.holder ~= '' then
      redis.call('ZREM', seen, asker.holder)
    end
  end
end

-- serve answers an asker; nil where there is no token for it now, or where the
-- rate keeps one from it that can wait.
local function serve(asker)
  local earlier = asker.receipt and receipts[asker.receipt]
  if earlier then
    local min_ttl, element = string.match(earlier, '^(%d+)|(.*)$')
    leave(asker)
    requests = requests - 1 -- the one that got the token is the request
    if min_ttl ~= asker.min_ttl then
      return 'C'
    end
    replays = replays + 1
    return 'R' .. element
  end
  local index, element = fit(asker.need)
  if not index then
    return nil
  end
  if allowed <= 0 then
    limited = true
    asker.letter = 'V'
    return asker.ticket == '' and 'L' or nil
  end
  use(index)
  allowed = allowed - 1
  taken[#taken + 1] = element
  if asker.receipt then
    receipts[asker.receipt] = asker.min_ttl .. '|' .. element
    redis.call('SET', asker.receipt, receipts[asker.receipt], 'PX', math.max(1, dies(element) - now))
  end
  if asker.new then
    hits = hits + 1
  else
    waited = waited + 1
  end
  leave(asker)
  return 'T' .. element
end

-- Tickets first, in the order in which they came; a token that a ticket outside
-- this call could use is set aside for it, and its part of the rate.
if waiting > 0 and (length > 0 or next(by_ticket)) then
  for _, ticket in ipairs(redis.call('ZRANGE', tickets, 0, -1)) do
    local asker = by_ticket[ticket]
    if asker then
      asker.answer = serve(asker)
    else
      local index = fit(tonumber(string.match(ticket, '^%d+')))
      if index and allowed > 0 then
        use(index)
        allowed = allowed - 1
      end
    end
  end
end

local answers = {}
for i, asker in ipairs(askers) do
  if asker.arrival ~= '' then
    answers[i] = asker.answer or ((asker.letter or 'W') .. asker.arrival)
  else
    answers[i] = serve(asker)
    if not answers[i] then
      if asker.ticket == '' then
        misses = misses + 1
        answers[i] = 'E'
      elseif waiting >= tonumber(ARGV[6]) then
        misses = misses + 1
        answers[i] = 'F'
      else
        -- Microseconds, and the place in this call, keep arrivals apart.
        local time = redis.call('TIME')
        asker.arrival = ms(time[1] * 1000000 + time[2] + i)
        show(asker)
        answers[i] = (asker.letter or 'W') .. asker.arrival
      end
    elseif answers[i] == 'L' then
      requests = requests - 1
    end
  end
end
if waiting > 0 then
  redis.call('PEXPIRE', tickets, 60000)
  redis.call('PEXPIRE', seen, 60000)
end

-- The plain callers come last: they have no ticket that could be overtaken.
local got = 0
local most = math.min(plain, allowed)
if most > 0 and next(used) == nil then
  repeat
    local popped = redis.call('LPOP', list, most - got) or {}
    for _, element in ipairs(popped) do
      if dies(element) then
        got = got + 1
        answers[askers_count + got] = element
      else
        set_aside(junk, stats, element)
      end
    end
  until got == most or #popped == 0
elseif most > 0 then
  local index, element = fit(margin)
  while index and got < most do
    use(index)
    got = got + 1
    taken[#taken + 1] = element
    answers[askers_count + got] = element
    index, element = fit(margin)
  end
end
for _, element in ipairs(taken) do
  redis.call('LREM', list, 1, element)
end
if got < plain and got >= allowed and redis.call('LLEN', list) > 0 then
  limited = true
  requests = requests + got
else
  requests = requests + plain
  misses = misses + plain - got
end
hits = hits + got

if limit > 0 then
  for _ = 1, hits + waited do
    redis.call('RPUSH', KEYS[6], ms(now))
  end
  redis.call('PEXPIRE', KEYS[6], window)
end

for name, value in pairs({requests = requests, hits = hits, waited = waited,
  misses = misses, replays = replays}) do
  if value ~= 0 then
    redis.call('HINCRBY', stats, name, value)
  end
end
redis.call('PEXPIRE', stats, stats_ttl)

local reply = {ms(now), ms(limited and rate_wait or 0), unpack(answers)}
redis.call('DEL', KEYS[5])
redis.call('RPUSH', KEYS[5], ARGV[1], unpack(reply))
redis.call('PEXPIRE', KEYS[5], ARGV[2])
return reply
