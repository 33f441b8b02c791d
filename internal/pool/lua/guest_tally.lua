-- Tells what a guest holds, and its figures.
--
-- KEYS  1 tokens  2 orders  3 journal  4 tickets  5 seen  6 stats  7 leases  8 spend
--       9 junk  10 retired  11 ended
-- Answer: tokens, orders, those of them that count as bought, callers waiting; its
--       figures as name, value, …; and those that are set apart. Of one that was handed
--       over to a target these alone.
local now = now_ms()
expect('LLEN', 1)
expect('ZCARD', 2, 4, 5, 7, 8, 11)
expect('HLEN', 3, 6, 10)
local apart = redis.call('HGETALL', KEYS[10])
if handed_over(KEYS[10]) then
  return {0, 0, 0, 0, {}, apart}
end
drop_dead(KEYS[1], KEYS[6], KEYS[9], now, clocks)
purge_orders(KEYS[2], KEYS[3], KEYS[7], KEYS[6], KEYS[8], KEYS[9], KEYS[11], now)
return {redis.call('LLEN', KEYS[1]), redis.call('ZCARD', KEYS[2]), bought_orders(KEYS[3]),
  live_tickets(KEYS[4], KEYS[5], now), redis.call('HGETALL', KEYS[6]), apart}
