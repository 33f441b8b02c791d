-- Reads a guest's stock and figures.
--
-- Uses   journal ended purge guests
-- KEYS   tokens orders journal tickets seen stats leases spend apart ended
-- Reply  {tokens orders bought waiting figures apart};
--        tokens, orders, bought, waiting: numbers of tokens, orders, bought orders and tickets
--        figures: name, value, …
--        apart: figures that are set apart; the other fields are 0 or empty for a handed-over guest
-- Errors OOM before any change
local now = now_ms()
local apart = redis.call('HGETALL', KEYS.apart)
if handed_over() then
  return {0, 0, 0, 0, {}, apart}
end
drop_expired(now)
return {redis.call('LLEN', KEYS.tokens), redis.call('ZCARD', KEYS.orders), bought_orders(),
  live_tickets(KEYS.tickets, KEYS.seen, now), redis.call('HGETALL', KEYS.stats), apart}
