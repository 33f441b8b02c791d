-- Writes the provider's task ID into the journal, if the order still exists. The replica that
-- knows the task becomes the owner, also after its lease ended: no other one could poll it.
--
-- Uses   journal
-- KEYS   orders journal leases stats
-- ARGV   order task owner lease_ms;
--        task: query-escaped
-- Reply  1 written, 0 the order is gone
-- Errors WRONGTYPE before any change; works without free memory
expect('ZCARD', KEYS.orders, KEYS.leases)
writable('HDEL', KEYS.stats)
local e = entry_of(ARGV.order)
if not e or not redis.call('ZSCORE', KEYS.orders, ARGV.order) then
  return 0
end
add_figures(KEYS.stats, {bought = is_bought(e.state) and 0 or 1})
e.state, e.task, e.owner = 'b', ARGV.task, ARGV.owner
write_entry(ARGV.order, e)
redis.call('ZADD', KEYS.leases, ms(now_ms() + tonumber(ARGV.lease_ms)), ARGV.order)
return 1
