-- Takes over orders whose lease ended. An order of unknown fate has a lease for life.
--
-- Uses   journal ended purge
-- KEYS   orders journal leases stats spend junk ended
-- ARGV   owner lease_ms, then ids of orders
-- Reply  {taken gone}; taken: of each adopted order its id, ms since placement, ms until its
--        deadline, its line of the journal; gone: ids of orders that no longer exist
local now = now_ms()
expect('ZCARD', KEYS.orders, KEYS.leases, KEYS.spend, KEYS.ended)
expect('HLEN', KEYS.journal)
writable('HDEL', KEYS.stats)
purge_orders(now)
local taken, gone = {}, {}
for i = ARGV.size + 1, #ARGV do
  local order = ARGV[i]
  local e = entry_of(order)
  local deadline = redis.call('ZSCORE', KEYS.orders, order)
  local lease = tonumber(redis.call('ZSCORE', KEYS.leases, order) or 0)
  if not e or not deadline then
    gone[#gone + 1] = order
  elseif lease <= now then
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
