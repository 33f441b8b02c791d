-- Shared: a function that counts tokens, orders and callers.
--
-- KEYS   tokens orders tickets seen

-- stock_counts counts the fresh tokens, the fresh tokens that outlive the margin and the lead time
-- (outliving), the orders in flight and the pending callers. The field expiry is the time in ms until
-- the first fresh token enters its margin. The field look is the time in ms until the number of
-- outliving tokens falls. The fields expiry and look are -1 if there is no such token. If `idle` is
-- true, the identity has no orders and no callers, and stock_counts reads only the tokens.
local function stock_counts(now, margin, lead, idle)
  local list, expiry, look, rest = KEYS.tokens, -1, -1, 0
  local length = redis.call('LLEN', list)
  if length > 0 then
    local death = death_of(redis.call('LINDEX', list, 0))
    expiry = math.max(0, death - margin - now)
    if death <= now + margin + lead then
      rest = first_at_least(list, length, now + margin + lead + 1)
      death = rest < length and death_of(redis.call('LINDEX', list, rest))
    end
    look = death and math.max(0, death - margin - lead - now) or -1
  end
  return {fresh = length, outliving = length - rest, expiry = expiry, look = look,
    orders = idle and 0 or redis.call('ZCARD', KEYS.orders),
    waiting = idle and 0 or live_tickets(KEYS.tickets, KEYS.seen, now)}
end
