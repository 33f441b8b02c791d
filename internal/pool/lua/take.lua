-- Hands out tokens to the callers of one replica that asked since its last call. First come the
-- waiters, which may have a ticket in the queue, in the order of their tickets; then the
-- immediate callers, which take any token at once and never queue.
--
-- KEYS   tokens tickets seen stats receipt rate junk failures, then one for each Idempotency-Key
-- ARGV   number receipt_ms margin_ms rate rate_per_ms most_waiting immediate departures waiters,
--        then each DEPARTURE and each WAITER;
--        number: of this call; grows by replica
--        receipt_ms: life of the receipt
--        rate: tokens within rate_per_ms, 0 = no limit
--        most_waiting: tickets
--        immediate, departures, waiters: how many there are
-- DEPARTURE  ticket outcome holder;
--        ticket: to be given up
--        outcome: an OUTCOME, 0 = the request is not counted
--        holder: as of a WAITER
-- OUTCOME  missed refused;
--        missed: its wait ended
--        refused: no token could come
-- WAITER ticket arrival need_ms once min_ttl holder end_on_failure;
--        ticket: '' = does not wait
--        arrival: Unix microseconds, '' = asks for the first time
--        need_ms: life of the token
--        once: number of its Idempotency-Key's key, 0 = none
--        min_ttl: as requested, ms
--        holder: "ticket|replica" if other replicas may have the ticket, too, else ''
--        end_on_failure: 1 = a failed order ends its wait; the answer is in `failures` then
-- Reply  {now rate_wait_ms}, then of each waiter an answer and its value, then the elements for
--        the immediate callers. A retry gets the reply of its number again; an older number gets
--        {'stale'}.
--        now: Unix ms
--        rate_wait_ms: until the rate allows one more, 0 = the rate refused no caller
-- Answer and its value:
--        token: the element
--        replay: the element that its Idempotency-Key got before
--        parked: its arrival; it has a ticket
--        held: its arrival; as parked, and only the rate keeps a token from it
--        none: ''; there is no token for it
--        full: ''; there are too many tickets
--        conflict: ''; its Idempotency-Key was used with another min_ttl
--        limited: ''; refused by the rate
--        failed: text of the failure; its order failed, and its ticket is removed
-- Errors WRONGTYPE before any token is given away; works without free memory
local number = tonumber(ARGV.number)
local known = tonumber(redis.call('LINDEX', KEYS.receipt, 0) or '')
if known and known >= number then
  return known == number and redis.call('LRANGE', KEYS.receipt, 1, -1) or {'stale'}
end

local now = now_ms()
local margin, limit, rate_per = tonumber(ARGV.margin_ms), tonumber(ARGV.rate), tonumber(ARGV.rate_per_ms)
local list, tickets, seen = KEYS.tokens, KEYS.tickets, KEYS.seen
local figures = {requests = 0, hits = 0, waited = 0, misses = 0, refused = 0, replays = 0}
local waiting                       -- tickets in the queue
local allowed, rate_wait            -- tokens that the rate allows now; ms until one more
local limited = false               -- whether the rate refused a caller
local waiters, by_ticket = {}, {}
local once = {}                     -- what each Idempotency-Key got, by its key; false = nothing yet
local length                        -- of the list; tokens leave it together at the end
local used, first_free, taken = {}, 0, {} -- indexes in use, the first other one, elements to remove

-- A ticket of an Idempotency-Key can be held by several replicas. Beside the ticket, which
-- older versions read, `seen` has the holder of each: "ticket|replica".
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

-- leave removes a waiter that has its answer from the queue.
local function leave(waiter)
  if waiter.arrival ~= '' then
    give_up(waiter.ticket)
    if waiter.holder ~= '' then
      redis.call('ZREM', seen, waiter.holder)
    end
  end
end

-- show refreshes a waiter's ticket. After a silence of its replica the ticket returns to its
-- old place in the queue.
local function show(waiter)
  by_ticket[waiter.ticket] = waiter
  waiting = waiting + redis.call('ZADD', tickets, 'NX', waiter.arrival, waiter.ticket)
  redis.call('ZADD', seen, ms(now), waiter.ticket)
  if waiter.holder ~= '' then
    redis.call('ZADD', seen, ms(now), waiter.holder)
  end
end

-- Departures: removes the tickets of callers that left. Returns where the waiters begin.
local function remove_departed()
  local at = ARGV.size
  for _ = 1, tonumber(ARGV.departures) do
    local ticket, holder = ARGV[at + DEPARTURE.ticket], ARGV[at + DEPARTURE.holder]
    if holder ~= '' then
      redis.call('ZREM', seen, holder)
    end
    if holder == '' or not held_elsewhere(ticket) then
      give_up(ticket)
    end
    local outcome = tonumber(ARGV[at + DEPARTURE.outcome])
    figures.misses = figures.misses + (outcome == OUTCOME.missed and 1 or 0)
    figures.refused = figures.refused + (outcome == OUTCOME.refused and 1 or 0)
    at = at + DEPARTURE.size
  end
  return at
end

-- Waiters: reads them from the arguments, and what their Idempotency-Keys got. Returns whether
-- one of them may find its answer in `failures`.
local function read_waiters(at)
  local may_fail = false
  local size = tonumber(ARGV.waiters)
  if size > 0 then
    redis.call('ZCARD', tickets) -- another type must fail before any token is given away
  end
  for i = 1, size do
    local waiter = {
      ticket = ARGV[at + WAITER.ticket],
      holder = ARGV[at + WAITER.holder],
      arrival = ARGV[at + WAITER.arrival],
      need = tonumber(ARGV[at + WAITER.need_ms]),
      min_ttl = ARGV[at + WAITER.min_ttl],
      once = KEYS[tonumber(ARGV[at + WAITER.once])],
      end_on_failure = ARGV[at + WAITER.end_on_failure] == '1',
    }
    waiters[i] = waiter
    at = at + WAITER.size
    waiter.new = waiter.arrival == ''
    may_fail = may_fail or waiter.end_on_failure and not waiter.new
    if waiter.once and once[waiter.once] == nil then
      once[waiter.once] = redis.call('GET', waiter.once)
    end
  end
  return may_fail
end

-- Queue: refreshes the tickets, and answers the waiters whose order failed. Their tickets are
-- removed already; a caller with the same ticket that came later has another arrival.
local function update_queue(may_fail)
  local failures = {}
  if may_fail then
    for _, member in ipairs(redis.call('ZRANGE', KEYS.failures, 0, -1)) do
      local caller, answer = string.match(member, '^([^|]*|%d+)|(.*)$')
      failures[caller or ''] = {member = member, answer = answer}
    end
  end
  for _, waiter in ipairs(waiters) do
    local failure = waiter.end_on_failure and failures[waiter.ticket .. '|' .. waiter.arrival]
    if waiter.new then
      figures.requests = figures.requests + 1
      local held = waiter.holder ~= '' and redis.call('ZSCORE', tickets, waiter.ticket)
      if held then
        waiter.arrival = ms(tonumber(held)) -- another replica's caller came first
      end
    end
    if failure then
      waiter.answer = {'failed', failure.answer}
      figures.misses = figures.misses + 1
      if waiter.holder == '' then
        redis.call('ZREM', KEYS.failures, failure.member)
      else -- other replicas may hold the same ticket, and ask too
        redis.call('ZREM', seen, waiter.holder)
      end
    elseif waiter.arrival ~= '' then
      show(waiter)
    end
  end
end

-- use marks the index of a token as given away.
local function use(index)
  used[index] = true
  while used[first_free] do
    first_free = first_free + 1
  end
end

-- fit finds the index and the element of a token that lives for `need` ms. On its way it sets
-- aside elements that are not tokens.
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
      set_aside(KEYS.junk, KEYS.stats, element)
      taken[#taken + 1] = element
    end
    index = index + 1
  end
end

-- replay answers a waiter whose Idempotency-Key got a token before.
local function replay(waiter, handed)
  local min_ttl, element = string.match(handed, '^(%d+)|(.*)$')
  leave(waiter)
  figures.requests = figures.requests - 1 -- the caller that got the token is the request
  if min_ttl ~= waiter.min_ttl then
    return {'conflict', ''}
  end
  figures.replays = figures.replays + 1
  return {'replay', element}
end

-- serve answers a waiter; nil if no token fits it now, or if it has a ticket and the rate keeps
-- the token from it.
local function serve(waiter)
  local handed = waiter.once and once[waiter.once]
  if handed then
    return replay(waiter, handed)
  end
  local index, element = fit(waiter.need)
  if not index then
    return nil
  end
  if allowed <= 0 then
    limited = true
    if waiter.ticket == '' then
      figures.requests = figures.requests - 1
      return {'limited', ''}
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
  local figure = waiter.new and 'hits' or 'waited'
  figures[figure] = figures[figure] + 1
  leave(waiter)
  return {'token', element}
end

-- Tickets: serves the queue in the order of arrival. A ticket of another call reserves the
-- token that fits it, and its part of the rate.
local function serve_tickets()
  if waiting == 0 or (length == 0 and not next(by_ticket)) then
    return
  end
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

-- enqueue gives the i-th waiter a ticket; returns the answer of a waiter that gets none.
local function enqueue(waiter, i)
  if waiter.ticket == '' then
    figures.misses = figures.misses + 1
    return {'none', ''}
  elseif waiting >= tonumber(ARGV.most_waiting) then
    figures.misses = figures.misses + 1
    return {'full', ''}
  end
  -- Microseconds, and the position in this call, keep arrivals apart.
  local time = redis.call('TIME')
  waiter.arrival = ms(time[1] * 1000000 + time[2] + i)
  show(waiter)
end

-- Newcomers: serves or enqueues the waiters without a ticket, and writes all waiters' answers.
local function answer_waiters(reply)
  for i, waiter in ipairs(waiters) do
    local answer = waiter.answer
    if waiter.arrival == '' then
      answer = serve(waiter) or enqueue(waiter, i)
    end
    answer = answer or {waiter.held and 'held' or 'parked', waiter.arrival}
    reply[#reply + 1] = answer[1]
    reply[#reply + 1] = answer[2]
  end
  if waiting > 0 then
    redis.call('PEXPIRE', tickets, 60000)
    redis.call('PEXPIRE', seen, 60000)
  end
end

-- Immediate callers: they come last, because they have no ticket that could be overtaken.
local function serve_immediate(reply)
  local immediate, got = tonumber(ARGV.immediate), 0
  local most = math.min(immediate, allowed)
  if most > 0 and next(used) == nil then
    repeat
      local popped = redis.call('LPOP', list, most - got) or {}
      for _, element in ipairs(popped) do
        if dies(element) then
          got = got + 1
          reply[#reply + 1] = element
        else
          set_aside(KEYS.junk, KEYS.stats, element)
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
    figures.requests = figures.requests + got
  else
    figures.requests = figures.requests + immediate
    figures.misses = figures.misses + immediate - got
  end
  figures.hits = figures.hits + got
end

writable('HDEL', KEYS.stats)
drop_dead(list, KEYS.stats, KEYS.junk, now + margin)
waiting = live_tickets(tickets, seen, now)
local first_waiter = remove_departed()
allowed, rate_wait = rate_room(KEYS.rate, now, limit, rate_per)
length = redis.call('LLEN', list)
update_queue(read_waiters(first_waiter))
serve_tickets()
local reply = {ms(now), '0'}
answer_waiters(reply)
serve_immediate(reply)
rate_use(KEYS.rate, now, figures.hits + figures.waited, limit, rate_per)
add_figures(KEYS.stats, figures)

reply[2] = ms(limited and rate_wait or 0)
redis.call('DEL', KEYS.receipt)
redis.call('RPUSH', KEYS.receipt, ARGV.number, unpack(reply))
redis.call('PEXPIRE', KEYS.receipt, ARGV.receipt_ms)
return reply
