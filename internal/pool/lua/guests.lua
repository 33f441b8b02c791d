-- Shared: the stock of a guest. Needs journal, ended and purge.
--
-- KEYS   tokens orders journal tickets seen stats leases spend junk apart ended

-- expect_guest reads each key, as expect does.
local function expect_guest()
  expect('LLEN', KEYS.tokens)
  expect('ZCARD', KEYS.orders, KEYS.tickets, KEYS.seen, KEYS.leases, KEYS.spend, KEYS.ended)
  expect('HLEN', KEYS.journal, KEYS.stats, KEYS.apart)
end

-- drop_expired removes expired tokens and orders.
local function drop_expired(now)
  drop_dead(KEYS.tokens, KEYS.stats, KEYS.junk, now, clocks)
  purge_orders(now)
end

-- handed_over reports whether a target has the identity, or had it some minutes ago: its
-- tokens, orders and figures are the target's then.
local function handed_over()
  return redis.call('HGET', KEYS.apart, 'left') ~= false
end

-- bought_orders returns how many of the orders under way count as bought.
local function bought_orders()
  local bought, lines = 0, redis.call('HGETALL', KEYS.journal)
  for i = 2, #lines, 2 do
    local state = string.match(lines[i], '^%d+|(%a)|')
    bought = bought + (state and is_bought(state) and 1 or 0)
  end
  return bought
end
