-- Shared: a function that ends the orders whose deadline has passed. The files journal.lua and
-- ended.lua must come first.
--
-- KEYS   orders journal stats spend

-- purge_orders removes the orders whose deadline has passed. An order in the state i was not bought,
-- so its budget is released. Any other order counts as lost.
local function purge_orders(now)
  for _, order in ipairs(redis.call('ZRANGEBYSCORE', KEYS.orders, '-inf', ms(now))) do
    local e = entry_of(order)
    remove(order)
    if e and e.state == 'i' then
      redis.call('ZREM', KEYS.spend, order)
    elseif e then
      add_figures(KEYS.stats, {lost = 1, bought = is_bought(e.state) and 0 or 1, spent = e.price})
      note_end(now, order, e, 'lost||||-1|0|0|-1')
    end
  end
end
