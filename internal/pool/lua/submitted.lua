-- Writes the provider's task ID into the journal, if the order still exists. The calling replica
-- becomes the owner, even if its lease has expired, because only this replica can poll the task.
--
-- Uses   journal
-- KEYS   orders journal leases stats
-- ARGV   order task owner lease_ms;
--        task: query-escaped
-- Reply  1 the task was stored, 0 the order does not exist
-- Errors none for lack of free memory
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
