-- Notes that it is unknown whether an order was bought. It counts as bought and exists until
-- its deadline; only a callback can settle it.
--
-- Uses   journal
-- KEYS   orders journal leases stats
-- ARGV   order owner left_ms;
--        left_ms: longest time of a solve from now
-- Reply  1 noted, 0 the order is gone, in another state or another replica's
-- Errors WRONGTYPE before any change; works without free memory
expect('ZCARD', KEYS.orders, KEYS.leases)
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
-- No replica must adopt it: there is nothing to do for it.
redis.call('ZADD', KEYS.leases, ms(deadline), ARGV.order)
return 1
