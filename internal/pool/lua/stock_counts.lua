-- Shared: a function that counts tokens, orders and callers.
--
-- KEYS   tokens orders tickets seen

-- stock_counts counts the fresh tokens, the fresh tokens that outlive the margin and the lead time
-- (outliving), the orders in flight and the pending callers. The field expiry is the time in ms until
-- the first fresh token enters its margin. The field look is the time in ms until the number of
-- outliving tokens falls. The fields expiry and look are -1 if there is no such token.
local function stock_counts(now, margin, lead)
  local list = KEYS.tokens
  local length = redis.call('LLEN', list)
  local rest = first_at_least(list, length, now + margin + lead + 1)
  local expiry, look = -1, -1
  if length > 0 then
    expiry = math.max(0, death_of(redis.call('LINDEX', list, 0)) - margin - now)
  end
  if rest < length then
    look = math.max(0, death_of(redis.call('LINDEX', list, rest)) - margin - lead - now)
  end
  return {fresh = length, outliving = length - rest, orders = redis.call('ZCARD', KEYS.orders),
    waiting = live_tickets(KEYS.tickets, KEYS.seen, now), expiry = expiry, look = look}
end
