-- Hands out tokens to the callers of one replica that asked since its last call.
--
-- KEY, CALL, DEPARTURE, WAITER and ANSWER stand for positions and words that
-- takeprotocol.go defines for both sides and puts in here.
--
-- KEYS  those of KEY, then one for each Idempotency-Key
-- ARGV  CALL, then a DEPARTURE for each ticket to be given up, then a WAITER for
--       each caller but the immediate ones, of which CALL has the number alone
-- Answer: now in ms, ms until the rate allows the next one (0 = it refused nobody),
--       for each waiter an ANSWER and what belongs to it, then the tokens for
--       the immediate callers. 'stale' alone for a call that is older than the
--       last one.
local receipt = KEYS[KEY.receipt]
local number = tonumber(ARGV[CALL.number])
local known = tonumber(redis.call('LINDEX', receipt, 0) or '')
if known and known >= number then
  return known == number and redis.call('LRANGE', receipt, 1, -1) or {'stale'}
end

local now = now_ms()
local margin = tonumber(ARGV[CALL.margin])
local immediate = tonumber(ARGV[CALL.immediate])
local list, tickets, seen = KEYS[KEY.tokens], KEYS[KEY.tickets], KEYS[KEY.seen]
local stats, junk, handouts = KEYS[KEY.stats], KEYS[KEY.junk], KEYS[KEY.rate]
local requests, hits, waited, misses, refused, replays = 0, 0, 0, 0, 0, 0
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

local at = CALL.size
for _ = 1, tonumber(ARGV[CALL.departures]) do
  local ticket, holder = ARGV[at + DEPARTURE.ticket], ARGV[at + DEPARTURE.holder]
  if holder ~= '' then
    redis.call('ZREM', seen, holder)
  end
  if holder == '' or not held_elsewhere(ticket) then
    give_up(ticket)
  end
  local outcome = tonumber(ARGV[at + DEPARTURE.outcome])
  misses = misses + (outcome == OUTCOME.missed and 1 or 0)
  refused = refused + (outcome == OUTCOME.refused and 1 or 0)
  at = at + DEPARTURE.size
end

local limit, rate_per = tonumber(ARGV[CALL.rate]), tonumber(ARGV[CALL.rate_per])
local allowed, rate_wait = rate_room(handouts, now, limit, rate_per)

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

local waiters, by_ticket, told = {}, {}, false
local once = {} -- what each Idempotency-Key got, by its key; false = nothing yet
-- show says that the waiter's replica lives, and keeps it in the queue.
local function show(waiter)
  by_ticket[waiter.ticket] = waiter
  -- A replica that was silent for a while is back where it was.
  waiting = waiting + redis.call('ZADD', tickets, 'NX', waiter.arrival, waiter.ticket)
  redis.call('ZADD', seen, ms(now), waiter.ticket)
  if waiter.holder ~= '' then
    redis.call('ZADD', seen, ms(now), waiter.holder)
  end
end
local count_waiters = tonumber(ARGV[CALL.waiters])
if count_waiters > 0 then
  redis.call('ZCARD', tickets) -- of another type it must fail before anything is given away
end
for i = 1, count_waiters do
  local waiter = {
    ticket = ARGV[at + WAITER.ticket],
    holder = ARGV[at + WAITER.holder],
    arrival = ARGV[at + WAITER.arrival],
    need = tonumber(ARGV[at + WAITER.need]),
    min_ttl = ARGV[at + WAITER.min_ttl],
    once = KEYS[tonumber(ARGV[at + WAITER.once])],
    told = ARGV[at + WAITER.told] == '1',
  }
  waiters[i] = waiter
  at = at + WAITER.size
  waiter.new = waiter.arrival == ''
  told = told or waiter.told and not waiter.new
  if waiter.once and once[waiter.once] == nil then
    once[waiter.once] = redis.call('GET', waiter.once)
  end
end
-- What callers are answered whose order failed: their tickets are given up already.
-- One that came after that has another arrival.
local untold = {}
if told then
  for _, member in ipairs(redis.call('ZRANGE', KEYS[KEY.untold], 0, -1)) do
    local caller, answer = string.match(member, '^([^|]*|%d+)|(.*)$')
    untold[caller or ''] = {member = member, answer = answer}
  end
end
for _, waiter in ipairs(waiters) do
  local failure = waiter.told and untold[waiter.ticket .. '|' .. waiter.arrival]
  if waiter.new then
    requests = requests + 1
    local held = waiter.holder ~= '' and redis.call('ZSCORE', tickets, waiter.ticket)
    if held then
      waiter.arrival = ms(tonumber(held)) -- another replica's caller came first
    end
  end
  if failure then
    waiter.answer = {ANSWER.failed, failure.answer}
    misses = misses + 1
    if waiter.holder == '' then
      redis.call('ZREM', KEYS[KEY.untold], failure.member)
    else -- other replicas may hold the same ticket, and ask too
      redis.call('ZREM', seen, waiter.holder)
    end
  elseif waiter.arrival ~= '' then
    show(waiter)
  end
end

local function leave(waiter)
  if waiter.arrival ~= '' then
    give_up(waiter.ticket)
    if waiter.holder ~= '' then
      redis.call('ZREM', seen, waiter.holder)
    end
  end
end

-- serve answers a waiter; nil where there is no token for it now, or where the
-- rate keeps one from it that can wait.
local function serve(waiter)
  local handed = waiter.once and once[waiter.once]
  if handed then
    local min_ttl, element = string.match(handed, '^(%d+)|(.*)$')
    leave(waiter)
    requests = requests - 1 -- the one that got the token is the request
    if min_ttl ~= waiter.min_ttl then
      return {ANSWER.conflict, ''}
    end
    replays = replays + 1
    return {ANSWER.replay, element}
  end
  local index, element = fit(waiter.need)
  if not index then
    return nil
  end
  if allowed <= 0 then
    limited = true
    if waiter.ticket == '' then
      requests = requests - 1
      return {ANSWER.limited, ''}
    end
    waiter.held = true
    return nil
  end
  use(index)
  allowed = allowed - 1
  taken[#taken + 1] = element
  if waiter.once then
    once[waiter.once] = waiter.min_ttl .. '|' .. element
    redis.call('SET', waiter.once, once[waiter.once], 'PX', math.max(1, dies(element) - now))
  end
  if waiter.new then
    hits = hits + 1
  else
    waited = waited + 1
  end
  leave(waiter)
  return {ANSWER.token, element}
end

-- Tickets first, in the order in which they came; a token that a ticket outside
-- this call could use is set aside for it, and its part of the rate.
if waiting > 0 and (length > 0 or next(by_ticket)) then
  for _, ticket in ipairs(redis.call('ZRANGE', tickets, 0, -1)) do
    local waiter = by_ticket[ticket]
    if waiter then
      waiter.answer = serve(waiter)
    else
      local index = fit(tonumber(string.match(ticket, '^%d+')))
      if index and allowed > 0 then
        use(index)
        allowed = allowed - 1
      end
    end
  end
end

-- enqueue puts a waiter into the queue; it answers who may not.
local function enqueue(waiter, i)
  if waiter.ticket == '' then
    misses = misses + 1
    return {ANSWER.none, ''}
  elseif waiting >= tonumber(ARGV[CALL.most_waiting]) then
    misses = misses + 1
    return {ANSWER.full, ''}
  end
  -- Microseconds, and the position in this call, keep arrivals apart.
  local time = redis.call('TIME')
  waiter.arrival = ms(time[1] * 1000000 + time[2] + i)
  show(waiter)
end

local reply = {ms(now), '0'} -- in the order of REPLY
for i, waiter in ipairs(waiters) do
  local answer = waiter.answer
  if waiter.arrival == '' then
    answer = serve(waiter) or enqueue(waiter, i)
  end
  answer = answer or {waiter.held and ANSWER.held or ANSWER.parked, waiter.arrival}
  reply[#reply + 1] = answer[1]
  reply[#reply + 1] = answer[2]
end
if waiting > 0 then
  redis.call('PEXPIRE', tickets, 60000)
  redis.call('PEXPIRE', seen, 60000)
end

-- The immediate callers come last: they have no ticket that could be overtaken.
local got = 0
local most = math.min(immediate, allowed)
if most > 0 and next(used) == nil then
  repeat
    local popped = redis.call('LPOP', list, most - got) or {}
    for _, element in ipairs(popped) do
      if dies(element) then
        got = got + 1
        reply[#reply + 1] = element
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
    reply[#reply + 1] = element
    index, element = fit(margin)
  end
end
for _, element in ipairs(taken) do
  redis.call('LREM', list, 1, element)
end
if got < immediate and got >= allowed and redis.call('LLEN', list) > 0 then
  limited = true
  requests = requests + got
else
  requests = requests + immediate
  misses = misses + immediate - got
end
hits = hits + got

rate_use(handouts, now, hits + waited, limit, rate_per)

count(stats, {requests = requests, hits = hits, waited = waited,
  misses = misses, refused = refused, replays = replays})

reply[REPLY.rate_wait] = ms(limited and rate_wait or 0)
redis.call('DEL', receipt)
redis.call('RPUSH', receipt, ARGV[CALL.number], unpack(reply))
redis.call('PEXPIRE', receipt, ARGV[CALL.receipt_life])
return reply
