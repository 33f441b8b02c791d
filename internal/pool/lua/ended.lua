-- Shared: functions that remove an order and store its end for the history. The file journal.lua
-- must come first.
--
-- KEYS   orders journal leases stats ended

-- remove deletes an order from all keys except the budget.
local function remove(order)
  redis.call('ZREM', KEYS.orders, order)
  redis.call('HDEL', KEYS.journal, order)
  redis.call('ZREM', KEYS.leases, order)
end

-- note_end stores how an order ended, in the same step that ends the order. The history reads this
-- entry. Redis keeps at most LIMIT.endings entries.
-- `detail` has the fields that the journal lacks:
-- how|code|provider|task|ms from placing to submit|polls|callback (1/0)|ms from placing to solve. A
-- time of -1 is unknown.
local function note_end(now, order, e, detail)
  if LIMIT.endings == 0 then
    return
  end
  if redis.call('ZCARD', KEYS.ended) >= LIMIT.endings then
    add_figures(KEYS.stats, {unrecorded = 1})
    return
  end
  redis.call('ZADD', KEYS.ended, ms(now), table.concat({order, ms(e.placed), ms(e.unsolved),
    ms(e.price), e.task, detail, e.facts}, '|'))
  redis.call('PEXPIRE', KEYS.ended, LIMIT.endings_ms)
end
