-- Reads one order.
--
-- Uses   journal
-- KEYS   orders journal
-- ARGV   order
-- Reply  {age_ms left_ms line}; empty if the order does not exist;
--        left_ms: time until the order's deadline
--        line: the order's line of the journal
local now = now_ms()
local deadline = redis.call('ZSCORE', KEYS.orders, ARGV.order)
local e = entry_of(ARGV.order)
if not deadline or not e or tonumber(deadline) <= now then
  return {}
end
return {now - e.placed, tonumber(deadline) - now, redis.call('HGET', KEYS.journal, ARGV.order)}
