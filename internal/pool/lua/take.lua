-- Hands out tokens to callers of one replica. The script serves the waiters first, in the order of
-- their tickets. Then it serves the immediate callers, which accept any token and never queue.
--
-- KEYS   tokens tickets seen stats receipt rate failures, then one for each Idempotency-Key
-- ARGV   number receipt_ms margin_ms rate rate_per_ms most_waiting immediate departures waiters,
--        then each DEPARTURE and each WAITER;
--        number: number of this call; the replica increments it for each call
--        receipt_ms: life of the receipt
--        rate: tokens within rate_per_ms, 0 = no limit
--        most_waiting: maximum number of tickets
--        immediate, departures, waiters: their numbers in this call
-- DEPARTURE  ticket outcome holder;
--        ticket: ticket to be removed
--        outcome: an OUTCOME, 0 = the request is not counted
--        holder: the field holder of the WAITER
-- OUTCOME  missed refused;
--        missed: the wait ended
--        refused: no token could come
-- WAITER ticket arrival need_ms once min_ttl holder end_on_failure;
--        ticket: name of the ticket, '' = the waiter never gets one
--        arrival: time of the ticket in Unix microseconds, '' = the waiter has no ticket yet
--        need_ms: minimum remaining life of the token
--        once: index in KEYS of the waiter's Idempotency-Key, 0 = none
--        min_ttl: min_ttl of the request, ms
--        holder: "ticket|replica" if other replicas may have the same ticket, else ''
--        end_on_failure: 1 = a failed order ends the wait; `failures` then has the answer
-- Reply  {now rate_wait_ms}, then for each waiter an answer and its value, then the elements for
--        the immediate callers. A retry of the last number gets the same reply again; an older
--        number gets {'stale'}.
--        now: Unix ms
--        rate_wait_ms: time until the rate allows one more token, 0 = the rate limited no caller
-- The answers and their values:
--        token: the element
--        replay: the element that was handed out for the Idempotency-Key before
--        parked: the arrival; the waiter has a ticket
--        held: the arrival; the waiter has a ticket, and only the rate keeps a token from it
--        none: ''; there is no token for the waiter
--        full: ''; there are too many tickets
--        conflict: ''; the Idempotency-Key was used with another min_ttl
--        limited: ''; the rate refused the waiter
--        failed: text of the failure; an order failed, and the waiter's ticket was removed
-- Errors none for lack of free memory
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
local allowed, rate_wait            -- number of tokens that the rate allows now; ms until it allows one more
local limited = false               -- whether the rate refused a caller
local waiters, by_ticket = {}, {}
local once = {}                     -- stored value of each Idempotency-Key; false = none yet
local length                        -- length of the list; tokens are removed only at the end
local used, first_free, taken = {}, 0, {} -- used indexes of the list, the first unused index, elements to remove

-- held_elsewhere reports whether any replica still holds the ticket of an Idempotency-Key. Several
-- replicas can hold it, so `seen` has a member "ticket|replica" for each holder.
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

-- drop_ticket removes the ticket of a waiter that has an answer.
local function drop_ticket(waiter)
  if waiter.arrival ~= '' then
    give_up(waiter.ticket)
    if waiter.holder ~= '' then
      redis.call('ZREM', seen, waiter.holder)
    end
  end
end

-- refresh refreshes a waiter's ticket. If the ticket was removed because its replica was silent, the
-- ticket returns to its old place in the queue.
local function refresh(waiter)
  by_ticket[waiter.ticket] = waiter
  waiting = waiting + redis.call('ZADD', tickets, 'NX', waiter.arrival, waiter.ticket)
  redis.call('ZADD', seen, ms(now), waiter.ticket)
  if waiter.holder ~= '' then
    redis.call('ZADD', seen, ms(now), waiter.holder)
  end
end

-- remove_departed removes the tickets of callers that left. remove_departed returns the position in
-- ARGV before the first waiter.
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

-- read_waiters reads the waiters from the arguments, and the stored values of their Idempotency-Keys.
-- read_waiters returns whether the key `failures` may have answers for the waiters.
local function read_waiters(at)
  local may_fail = false
  for i = 1, tonumber(ARGV.waiters) do
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

-- update_queue refreshes the tickets, and answers the waiters whose order failed. The tickets of the
-- answered waiters were already removed. A later caller with the same ticket has another arrival.
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
        waiter.arrival = ms(tonumber(held)) -- a caller at another replica already has this ticket
      end
    end
    if failure then
      waiter.answer = {'failed', failure.answer}
      figures.misses = figures.misses + 1
      if waiter.holder == '' then
        redis.call('ZREM', KEYS.failures, failure.member)
      else -- the answer stays stored for other replicas that hold the same ticket
        redis.call('ZREM', seen, waiter.holder)
      end
    elseif waiter.arrival ~= '' then
      refresh(waiter)
    end
  end
end

-- mark_used marks an index of the list as used, because its token is handed out or reserved.
local function mark_used(index)
  used[index] = true
  while used[first_free] do
    first_free = first_free + 1
  end
end

-- find_token returns the index and the element of the first unused token that lives for at least
-- `need` ms.
local function find_token(need)
  local index = first_free
  if need > margin then
    index = math.max(index, first_at_least(list, length, now + need))
  end
  while index < length do
    if not used[index] then
      return index, redis.call('LINDEX', list, index)
    end
    index = index + 1
  end
end

-- replay answers a waiter whose Idempotency-Key already has a token.
local function replay(waiter, handed)
  local min_ttl, element = string.match(handed, '^(%d+)|(.*)$')
  drop_ticket(waiter)
  figures.requests = figures.requests - 1 -- only the first caller with the key counts
  if min_ttl ~= waiter.min_ttl then
    return {'conflict', ''}
  end
  figures.replays = figures.replays + 1
  return {'replay', element}
end

-- serve returns the answer of a waiter. serve returns nil if no token fits the waiter now. serve also
-- returns nil if the rate allows no token and the waiter can have a ticket.
local function serve(waiter)
  local handed = waiter.once and once[waiter.once]
  if handed then
    return replay(waiter, handed)
  end
  local index, element = find_token(waiter.need)
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
  mark_used(index)
  allowed = allowed - 1
  taken[#taken + 1] = element
  if waiter.once then
    once[waiter.once] = waiter.min_ttl .. '|' .. element
    redis.call('SET', waiter.once, once[waiter.once], 'PX', math.max(1, death_of(element) - now))
  end
  local figure = waiter.new and 'hits' or 'waited'
  figures[figure] = figures[figure] + 1
  drop_ticket(waiter)
  return {'token', element}
end

-- serve_tickets serves the tickets in the order of their arrival. If the waiter of a ticket is not in
-- this call, serve_tickets reserves a token of the stock for the ticket, and counts one request
-- towards the rate.
local function serve_tickets()
  if waiting == 0 or (length == 0 and not next(by_ticket)) then
    return
  end
  for _, ticket in ipairs(redis.call('ZRANGE', tickets, 0, -1)) do
    local waiter = by_ticket[ticket]
    if waiter then
      waiter.answer = serve(waiter)
    else
      local index = find_token(tonumber(string.match(ticket, '^%d+')))
      if index and allowed > 0 then
        mark_used(index)
        allowed = allowed - 1
      end
    end
  end
end

-- enqueue gives the i-th waiter a ticket. If the waiter gets no ticket, enqueue returns the
-- waiter's answer.
local function enqueue(waiter, i)
  if waiter.ticket == '' then
    figures.misses = figures.misses + 1
    return {'none', ''}
  elseif waiting >= tonumber(ARGV.most_waiting) then
    figures.misses = figures.misses + 1
    return {'full', ''}
  end
  -- An arrival is in microseconds and includes the waiter's position in this call, so that all
  -- arrivals differ.
  local time = redis.call('TIME')
  waiter.arrival = ms(time[1] * 1000000 + time[2] + i)
  refresh(waiter)
end

-- answer_waiters serves or enqueues the waiters without a ticket, and appends the answers of all
-- waiters to the reply.
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

-- serve_immediate serves the immediate callers after all other callers. Immediate callers have no
-- place in the queue, so no caller can overtake them there.
local function serve_immediate(reply)
  local immediate, got = tonumber(ARGV.immediate), 0
  local most = math.min(immediate, allowed)
  if most > 0 and next(used) == nil then
    for _, element in ipairs(redis.call('LPOP', list, most) or {}) do
      got = got + 1
      reply[#reply + 1] = element
    end
  elseif most > 0 then
    local index, element = find_token(margin)
    while index and got < most do
      mark_used(index)
      got = got + 1
      taken[#taken + 1] = element
      reply[#reply + 1] = element
      index, element = find_token(margin)
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
drop_dead(list, KEYS.stats, now + margin)
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
