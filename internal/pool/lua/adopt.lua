-- Takes over orders whose leases have expired. An order that may or may not have been bought keeps
-- its lease until its deadline.
--
-- Uses   journal ended purge
-- KEYS   orders journal leases stats spend ended
-- ARGV   owner lease_ms, then order IDs
-- Reply  {taken gone};
--        taken: for each adopted order: ID, ms since the placing, ms until the deadline, and the
--          order's line of the journal
--        gone: IDs of orders that no longer exist
-- Errors none for lack of free memory
local now = now_ms()
writable('HDEL', KEYS.stats)
purge_orders(now)
local taken, gone = {}, {}
for i = ARGV.size + 1, #ARGV do
  local order = ARGV[i]
  local e = entry_of(order)
  local deadline = redis.call('ZSCORE', KEYS.orders, order)
  local lease = tonumber(redis.call('ZSCORE', KEYS.leases, order) or 0)
  -- A lease whose end is too far in the future was written before Redis' clock was set back. A live
  -- owner would have renewed it since.
  local stale = lease > now + tonumber(ARGV.lease_ms) + clocks
  if not e or not deadline then
    gone[#gone + 1] = order
  elseif lease <= now or (stale and e.state ~= 'u') then
    e.owner = ARGV.owner
    write_entry(order, e)
    redis.call('ZADD', KEYS.leases, ms(now + tonumber(ARGV.lease_ms)), order)
    taken[#taken + 1] = order
    taken[#taken + 1] = now - e.placed
    taken[#taken + 1] = tonumber(deadline) - now
    taken[#taken + 1] = redis.call('HGET', KEYS.journal, order)
  end
end
return {taken, gone}
