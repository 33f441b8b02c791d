-- Shared: the bound on the orders of one identity while they fail.
--
-- KEYS   attempts
--
-- The hash `attempts` describes the orders that failed since the last solve. The fields are: refused and
-- failed (numbers of orders), hopeless (1 = the provider rejects the parameters), reason, since
-- (start of the bound in Unix ms), next (Unix ms before which no order is placed), every (ms between
-- two probes), left (number of probes left in the bound's first minute). If `since` is absent or 0,
-- the identity is not bounded.

-- The bound begins after refusals_in_a_row refusals since the last solve, or after
-- failures_in_a_row failures and refusals together.
local refusals_in_a_row, failures_in_a_row = 3, 8

-- A bounded identity places one order each probe_every ms. If the provider rejects its
-- parameters, the interval begins with hopeless_first and doubles up to hopeless_last.
local probe_every, hopeless_first, hopeless_last = 5000, 60000, 3600000

-- At most first_minute orders are placed before the bound and in its first minute together, unless
-- more orders were in flight at the start of the bound.
local first_minute, minute_ms = 15, 60000

-- attempts_of reads the hash `attempts`. An absent number counts as 0.
local function attempts_of()
  local a = pairs_of(redis.call('HGETALL', KEYS.attempts))
  return {refused = tonumber(a.refused or 0), failed = tonumber(a.failed or 0), hopeless = a.hopeless == '1',
    reason = a.reason or '', since = tonumber(a.since or 0), next = tonumber(a.next or 0), every = tonumber(a.every or 0),
    left = tonumber(a.left or 0)}
end

-- attempts_wait returns the ms until the bound allows the next order; 0 = now. The result is at most
-- one interval, in case Redis' clock was set back after `next` was written.
local function attempts_wait(a, now)
  if a.since == 0 then
    return 0
  end
  return math.max(0, math.min(a.next - now, math.max(a.every, minute_ms)))
end

-- attempts_defer counts one order in the bound's first minute. After the last order that is allowed
-- in that minute, the next probe must wait for the end of the minute.
local function attempts_defer(a)
  a.left = math.max(0, a.left - 1)
  if a.left == 0 then
    a.next = math.max(a.next, a.since + minute_ms)
  end
end

-- attempts_probe counts an order that is placed while the identity is bounded.
local function attempts_probe(a, now)
  if a.since == 0 then
    return
  end
  a.next = now + a.every
  if not a.hopeless then
    attempts_defer(a)
  end
  redis.call('HSET', KEYS.attempts, 'next', ms(a.next), 'left', ms(a.left))
end

-- attempts_failed counts an order that ended without a token. `kind` is refused (the submit was
-- refused), failed (the order failed later), hopeless (the provider rejects the parameters) or ''
-- (the failure does not count). If the failed order was placed before the bound, one probe fewer is
-- allowed in the first minute. `ttl` is the minimum life of the hash in ms. The function returns
-- whether a bound began. Other replicas must then be notified.
local function attempts_failed(now, kind, reason, placed, ttl)
  if kind == '' then
    return false
  end
  local a = attempts_of()
  local before = a.since
  local probe = a.since > 0 and placed > a.since
  a.refused = a.refused + (kind == 'failed' and 0 or 1)
  a.failed = a.failed + (kind == 'failed' and 1 or 0)
  if kind == 'hopeless' then
    if not a.hopeless then
      a.since, a.every = now, hopeless_first
      a.next = now + a.every
    elseif probe then
      a.every = math.min(2 * a.every, hopeless_last)
      a.next = now + a.every
    end
    a.hopeless = true
  elseif a.hopeless then
    -- The bound for rejected parameters is the strictest and stays.
    kind = ''
  elseif a.since > 0 then
    if not probe then
      attempts_defer(a)
    end
  elseif a.refused >= refusals_in_a_row or a.refused + a.failed >= failures_in_a_row then
    a.since, a.every, a.next = now, probe_every, now + probe_every
    a.left = first_minute - a.refused - a.failed + 1
    attempts_defer(a)
  end
  redis.call('HSET', KEYS.attempts, 'refused', ms(a.refused), 'failed', ms(a.failed), 'since', ms(a.since),
    'next', ms(a.next), 'every', ms(a.every), 'left', ms(a.left), 'hopeless', a.hopeless and '1' or '0')
  if kind ~= '' then
    redis.call('HSET', KEYS.attempts, 'reason', reason)
  end
  redis.call('PEXPIRE', KEYS.attempts, math.max(tonumber(ttl), redis.call('PTTL', KEYS.attempts)))
  return a.since ~= before
end
