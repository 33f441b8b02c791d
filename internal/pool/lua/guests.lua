-- Shared: functions about the stock of a guest. The files journal.lua, ended.lua and purge.lua must
-- come first.
--
-- KEYS   tokens orders journal tickets seen stats leases spend apart ended

-- drop_expired removes expired tokens and orders.
local function drop_expired(now)
  drop_dead(KEYS.tokens, KEYS.stats, now, clocks)
  purge_orders(now)
end

-- handed_over reports whether a target took over the identity, now or some minutes ago. The
-- identity's tokens, orders and figures then belong to the target.
local function handed_over()
  return redis.call('HGET', KEYS.apart, 'left') ~= false
end

-- bought_orders returns the number of orders in flight that count as bought.
local function bought_orders()
  local bought, lines = 0, redis.call('HGETALL', KEYS.journal)
  for i = 2, #lines, 2 do
    local state = string.match(lines[i], '^%d+|(%a)|')
    bought = bought + (state and is_bought(state) and 1 or 0)
  end
  return bought
end
