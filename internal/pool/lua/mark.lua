-- Records that the owner is about to submit an order. Afterwards no other replica can know whether
-- the order was bought.
--
-- Uses   journal
-- KEYS   orders journal leases
-- ARGV   order owner lease_ms
-- Reply  1 the owner may submit, 0 the order does not exist or has another owner or state
-- Errors OOM before any change
local now = now_ms()
local e = entry_of(ARGV.order)
if not e or e.owner ~= ARGV.owner or not redis.call('ZSCORE', KEYS.orders, ARGV.order) then
  return 0
end
if e.state == 'i' then
  -- The difference is negative if this node's clock is a little behind the clock of the node that
  -- stored the placing.
  e.state, e.unsolved = 's', math.max(0, now - e.placed)
  write_entry(ARGV.order, e)
end
redis.call('ZADD', KEYS.leases, ms(now + tonumber(ARGV.lease_ms)), ARGV.order)
return e.state == 's' and 1 or 0
