-- Records that an order may or may not have been bought. The order then counts as bought and exists
-- until its deadline. While its task is unknown, only a callback can settle it.
--
-- Uses   journal
-- KEYS   orders journal leases stats
-- ARGV   order owner left_ms;
--        left_ms: maximum time until a solve, from now
-- Reply  1 the state was stored, 0 the order does not exist, or has another state or owner
-- Errors none for lack of free memory
writable('HDEL', KEYS.stats)
local e = entry_of(ARGV.order)
local deadline = tonumber(redis.call('ZSCORE', KEYS.orders, ARGV.order) or nil)
if not e or not deadline or e.owner ~= ARGV.owner or e.state ~= 's' then
  return e and e.state == 'u' and 1 or 0
end
add_figures(KEYS.stats, {bought = 1})
e.state = 'u'
write_entry(ARGV.order, e)
deadline = math.min(deadline, now_ms() + tonumber(ARGV.left_ms))
redis.call('ZADD', KEYS.orders, ms(deadline), ARGV.order)
-- Without a known task, no replica can work on the order, so none may adopt it.
redis.call('ZADD', KEYS.leases, ms(deadline), ARGV.order)
return 1
