-- Shared: functions about budgets. The sorted set `spend` has the orders of the last day, with the
-- time of each reservation.
--
-- KEYS   spend

local hour, day = 3600000, 86400000

-- span_wait returns the ms until the sliding window of `span` ms has fewer than `limit` orders;
-- 0 = now.
local function span_wait(now, span, limit)
  if limit <= 0 then
    return 0
  end
  local from = '(' .. ms(now - span)
  local used = redis.call('ZCOUNT', KEYS.spend, from, '+inf')
  if used < limit then
    return 0
  end
  -- If the limit was lowered, more than one order must leave the window first.
  local blocking = redis.call('ZRANGEBYSCORE', KEYS.spend, from, '+inf', 'WITHSCORES', 'LIMIT', used - limit, 1)
  return math.max(1, tonumber(blocking[2]) + span - now)
end

-- budget_wait returns the ms until both the hourly and the daily limit allow an order; 0 = now.
local function budget_wait(now, per_hour, per_day)
  redis.call('ZREMRANGEBYSCORE', KEYS.spend, '-inf', ms(now - day))
  return math.max(span_wait(now, hour, per_hour), span_wait(now, day, per_day))
end

-- book reserves an order in the budget.
local function book(now, order)
  redis.call('ZADD', KEYS.spend, 'NX', ms(now), order)
  redis.call('PEXPIRE', KEYS.spend, day + 60000)
end
